declare module '*/LC_MESSAGES/jupyter_gpu_guard.json' {
  const catalogue: Record<string, string[] | Record<string, string>>;
  export default catalogue;
}

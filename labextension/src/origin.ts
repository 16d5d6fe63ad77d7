import type { TranslationBundle } from '@jupyterlab/translation';

/** Where the policy comes from, each file by `name`: what is no file has words of its own. */
export function originText(
  source: string,
  trans: TranslationBundle,
  name: (path: string) => string = path => path
): string {
  return source
    .split(', ')
    .map(part => {
      switch (part) {
        case 'built-in defaults':
          return trans.__('built-in defaults');
        case 'c.GpuGuard options':
          return trans.__('c.GpuGuard options');
        default:
          return name(part);
      }
    })
    .join(', ');
}

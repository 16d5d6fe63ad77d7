import type { WireHolder, WireReport } from './wire';

/** What a notice, an outcome or a holder is about. */
export interface INamed {
  readonly owner: string;
  readonly notebook: string | null;
  readonly name: string;
}

/** Whether `owner` is a kernel: what is said of variables and notebooks is true of no other. */
export function isKernel(about: Pick<INamed, 'owner'>): boolean {
  return about.owner.startsWith('kernel:');
}

/** The file's name for a kernel that has one, else what the server calls it. */
export function titleOf(about: INamed): string {
  return (isKernel(about) ? about.notebook?.split('/').pop() : undefined) ?? about.name;
}

/** Whether this holder has a row of its own: it holds memory, may hold some, is parked, or has left some behind. */
export function holdsSomething(holder: WireHolder, report: WireReport): boolean {
  const mayHold = holder.memory_bytes === null && report.devices.length > 0;
  const isParked = holder.state === 'parked' || (holder.parked ?? null) !== null;
  return (
    isParked || mayHold || (holder.memory_bytes ?? 0) > 0 || holder.holdings.length > 0 || holder.leftovers.length > 0
  );
}

/** All GPU memory of processes that an earlier run has left behind; null where any of it is not known. */
export function leftMemory(holder: WireHolder): number | null {
  return holder.leftovers.reduce<number | null>(
    (sum, { memory_bytes: amount }) => (sum === null || amount === null ? null : sum + amount),
    0
  );
}

/** Whether it is inferred, and not seen, that one of `rows` is on its device. */
export function anyEstimate(rows: readonly { readonly evidence?: string }[]): boolean {
  return rows.some(row => row.evidence === 'estimate');
}

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { WireOutcome, WireReport } from './wire';

/** What other extensions may ask of the guard. */
export interface IGpuGuard {
  /** The newest report, or null while there is none. */
  readonly report: WireReport | null;
  /** Emitted whenever the report, or what is known about its absence, has changed. */
  readonly changed: ISignal<IGpuGuard, void>;
  /** The server's time in milliseconds since 1970: compare deadlines with this clock. */
  now(): number;
  /** Ask the server at once. */
  refresh(): Promise<void>;
  /** Promise that `owner` is needed for so many seconds from now. Rejects with a sentence for people. */
  keep(owner: string, seconds: number, reason?: string): Promise<void>;
  /** Take the promise back. */
  stopKeeping(owner: string): Promise<void>;
  /** Have the frameworks in `owner` give back what they keep. What came of it; null: it is still under way. */
  release(owner: string): Promise<WireOutcome | null>;
  /** Move what `owner` has on GPUs to the host's memory. It lives on with all its variables. */
  park(owner: string): Promise<WireOutcome | null>;
  /** Bring a parked `owner` back to its GPUs. */
  resume(owner: string): Promise<WireOutcome | null>;
  /** End `owner` now, at a person's request. */
  shutDown(owner: string): Promise<WireOutcome | null>;
}

export const IGpuGuard = new Token<IGpuGuard>(
  'jupyter-gpu-guard:IGpuGuard',
  'The newest report of the GPU guard, and what a person may ask of it.'
);

import type { WireHistory } from '../wire';
import type { IValue } from './plot';

const MINUTE_MS = 60_000;

/**
 * The minutes of `history` on the clock, the newest at `at` (milliseconds). What is read now stands for the minute that
 * is not over yet.
 */
export function pointsOf(
  history: WireHistory | null | undefined,
  of: keyof WireHistory,
  now: number | null,
  at: number
): IValue[] {
  const minutes = history?.[of] ?? [];
  const past = minutes.slice(0, -1).map((value, index) => ({
    at: at - (minutes.length - 1 - index) * MINUTE_MS,
    value
  }));
  return [...past, { at, value: now }];
}

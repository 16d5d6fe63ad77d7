import type { TranslationBundle } from '@jupyterlab/translation';
import { percent } from './format';
import type { WireHistory } from './wire';

/** How many minutes a line has at most, and how high it is, in units of its drawing. */
export const MINUTES = 60;
export const HEIGHT = 16;

/** The last hour of compute as a line, the newest minute at its right end. */
export interface ISpark {
  /** For the `d` of a path; a minute that is not known is a gap in it. */
  readonly line: string;
  readonly text: string;
}

/** Null where there is no history. */
export function sparkOf(history: WireHistory | null | undefined, trans: TranslationBundle): ISpark | null {
  const values = history?.compute_percent.slice(-MINUTES) ?? [];
  const known = values.filter(value => value !== null);
  if (known.length === 0) {
    return null;
  }
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return {
    line: lineOf(values),
    text: trans.__(
      'Compute in the last %1 min: %2 in the mean, %3 at most',
      values.length,
      percent(mean),
      percent(Math.max(...known))
    )
  };
}

/** A path through `values` (percent, or null), whole units only, so that it changes seldom. */
export function lineOf(values: readonly (number | null)[]): string {
  const left = MINUTES - values.length;
  let line = '';
  let drawing = false;
  values.forEach((value, index) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const y = Math.round(HEIGHT - 1 - (Math.min(100, value) / 100) * (HEIGHT - 2));
    // A single minute between two gaps would have no length, and nothing to be seen.
    line += drawing ? `L${left + index} ${y}` : `M${left + index} ${y}h.5`;
    drawing = true;
  });
  return line;
}

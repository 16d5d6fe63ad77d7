import type { TranslationBundle } from '@jupyterlab/translation';
import { NOT_KNOWN } from './format';
import { unknownText } from './words';

/** One quantity as it is shown. `title` is set only where it is not known, and says why. */
export interface IReading {
  readonly text: string;
  readonly title?: string;
}

/** A number in words, or a dash with its reason: what is not known never looks like 0. */
export function reading(
  value: number | null,
  why: string | null | undefined,
  format: (value: number) => string,
  trans: TranslationBundle
): IReading {
  return value === null ? { text: NOT_KNOWN, title: notKnown(why, trans) } : { text: format(value) };
}

/** `Not known: …`, for a title or a line of its own. */
export function notKnown(why: string | null | undefined, trans: TranslationBundle): string {
  return trans.__('Not known: %1.', unknownText(why ?? 'not-read', trans));
}

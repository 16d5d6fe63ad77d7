import type { TranslationBundle } from '@jupyterlab/translation';
import { NOT_KNOWN } from './format';
import { unknownText } from './words';

/** One quantity as it is shown. `title` says why there is no number, or why the number is only an estimate. */
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

/** How an estimate is marked: `≈ 4.0 GiB`. */
export function about(text: string): string {
  return `≈ ${text}`;
}

/** `figure`, marked where it is an `estimate`, with the reason. A dash stays a dash. */
export function marked(figure: IReading, estimate: boolean, trans: TranslationBundle): IReading {
  return estimate && figure.title === undefined ? { text: about(figure.text), title: estimateText(trans) } : figure;
}

/** Why a figure is only an estimate. */
export function estimateText(trans: TranslationBundle): string {
  return trans.__('An estimate: the driver names processes that cannot be seen here, so whose they are is inferred.');
}

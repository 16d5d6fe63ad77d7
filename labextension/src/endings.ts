import { bytes, moment, shorten } from './format';
import type { ILanguage } from './language';
import { isKernel, titleOf } from './owners';
import { reasonText } from './reasons';
import { personText } from './words';
import type { WireOutcome, WireReason, WireReport } from './wire';

/** Whether this is something that was shut down, and not merely a try or a rehearsal. */
export function isEnd(outcome: WireOutcome): boolean {
  return outcome.action === 'shutdown' && outcome.result === 'done';
}

/** The latest time the kernel of the notebook at `path` was shut down. */
export function lastEnd(report: WireReport, path: string): WireOutcome | null {
  return report.outcomes
    .filter(outcome => isEnd(outcome) && isKernel(outcome) && outcome.notebook === path)
    .reduce<WireOutcome | null>(
      (latest, outcome) => (latest === null || Date.parse(outcome.at) > Date.parse(latest.at) ? outcome : latest),
      null
    );
}

/** What happened, when, by which rule or whom. */
export function endText(outcome: WireOutcome, now: number, language: ILanguage): string {
  const { trans } = language;
  const when = moment(outcome.at, now, language);
  const name = shorten(titleOf(outcome), 48);
  if (outcome.owner.startsWith('leftovers:')) {
    return outcome.by === null
      ? trans.__('What an earlier run of %1 left behind was ended at %2 by rule %3.', name, when, outcome.rule)
      : trans.__(
          'What an earlier run of %1 left behind was ended at %2 at the request of %3.',
          name,
          when,
          personText(outcome.by, trans)
        );
  }
  if (!isKernel(outcome)) {
    return outcome.by === null
      ? trans.__('%1 was shut down at %2 by rule %3.', name, when, outcome.rule)
      : trans.__('%1 was shut down at %2 at the request of %3.', name, when, personText(outcome.by, trans));
  }
  return outcome.by === null
    ? trans.__('The kernel of %1 was shut down at %2 by rule %3.', name, when, outcome.rule)
    : trans.__('The kernel of %1 was shut down at %2 at the request of %3.', name, when, personText(outcome.by, trans));
}

/** What was seen when it was done, in a sentence; the server's own words where it has no others. */
export function detailText(outcome: WireOutcome, now: number, language: ILanguage): string {
  const said = outcome.said ?? [];
  // That there was nothing is what the result says already.
  const parts = said.filter(part => part.code !== 'nothing-to-give' || outcome.freed_bytes !== 0);
  const text =
    said.length === 0
      ? outcome.detail
      : parts
          .map(part => reasonText(part, now, language))
          .reduce((told, part) => (told === '' ? part : language.trans.__('%1; %2', told, part)), '');
  if (text === '') {
    return '';
  }
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?。]$/.test(sentence) ? sentence : language.trans.__('%1.', sentence);
}

/** Why it was done. What could have been done instead helps nobody afterwards. */
export function groundsOf(outcome: WireOutcome): WireReason[] {
  return outcome.reasons.filter(reason => reason.code !== 'last-cell-failed');
}

/** What became of the memory; nothing to say of a terminal or TensorBoard that held none. */
export function freedText(outcome: WireOutcome, { trans }: ILanguage): string {
  if (outcome.survivors.length > 0) {
    return trans.__('Not all of its memory is free yet: process %1 still holds some.', outcome.survivors.join(', '));
  }
  if (!isKernel(outcome) && outcome.freed_bytes === 0) {
    return '';
  }
  return outcome.freed_bytes === null
    ? trans.__('How much memory this freed is not known.')
    : trans.__('GPU memory freed: %1.', bytes(outcome.freed_bytes));
}

import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, moment } from './format';
import type { ILanguage } from './language';
import { titleOf } from './owners';
import type { WireHolder, WireOutcome, WireReport } from './wire';
import { resultText } from './words';

/** What can be done to an owner that lives on with all it has. */
export type Remedy = 'release' | 'park' | 'resume';

const REMEDIES: readonly Remedy[] = ['release', 'park', 'resume'];
/** For so long the row itself says what came of one. */
const SHOWN_SECONDS = 600;

/** One button of a row. */
export interface IOffer {
  readonly remedy: Remedy;
  readonly label: string;
  readonly hint: string;
}

/** What may be asked for now, in the order of how little it costs. */
export function offersOf(holder: WireHolder, trans: TranslationBundle): IOffer[] {
  const offered: readonly string[] = holder.offers ?? [];
  return REMEDIES.filter(remedy => offered.includes(remedy)).map(remedy => offer(remedy, trans));
}

function offer(remedy: Remedy, trans: TranslationBundle): IOffer {
  switch (remedy) {
    case 'release':
      return {
        remedy,
        label: trans.__('Release'),
        hint: trans.__('Give back the GPU memory that its frameworks keep for later. No variable is lost.')
      };
    case 'park':
      return {
        remedy,
        label: trans.__('Park'),
        hint: trans.__('Move its GPU memory to the memory of the host. It comes back when a cell runs. Experimental.')
      };
    case 'resume':
      return { remedy, label: trans.__('Resume'), hint: trans.__('Bring its memory back to the GPU.') };
  }
}

/** The name of a button for those who cannot see where it stands: `Release GPU memory of demo.ipynb`. */
export function nameOf(remedy: Remedy, title: string, trans: TranslationBundle): string {
  switch (remedy) {
    case 'release':
      return trans.__('Release GPU memory of %1', title);
    case 'park':
      return trans.__('Park %1', title);
    case 'resume':
      return trans.__('Resume %1', title);
  }
}

/** Why a request brought nothing; the reason follows. */
export function failureOf(remedy: Remedy, title: string, trans: TranslationBundle): string {
  switch (remedy) {
    case 'release':
      return trans.__('Could not release GPU memory of %1', title);
    case 'park':
      return trans.__('Could not park %1', title);
    case 'resume':
      return trans.__('Could not resume %1', title);
  }
}

/** Whether `outcome` is that of an act after which its owner lives on. */
export function isGentle(outcome: Pick<WireOutcome, 'action'>): boolean {
  return (REMEDIES as readonly string[]).includes(outcome.action);
}

/** Whether people want to know: not each time that a rule tried in vain. */
export function isWorthTelling(outcome: WireOutcome): boolean {
  return outcome.by !== null || !['unsuited', 'withdrawn', 'already-gone'].includes(outcome.result);
}

/** `demo.ipynb: gave back 3.1 GiB.` with what else is to be said. */
export function cameText(outcome: WireOutcome, detail: string, { trans }: ILanguage): string {
  const said = trans.__('%1: %2.', titleOf(outcome), resultText(outcome, trans));
  return detail === '' ? said : `${said} ${detail}`;
}

/** What came of the latest act on `holder` after which it lives on, while that is news; null: nothing. */
export function latestText(
  holder: WireHolder,
  report: WireReport,
  now: number,
  language: ILanguage
): { outcome: WireOutcome; text: string } | null {
  const since = now - SHOWN_SECONDS * 1000;
  const fresh = report.outcomes
    .filter(
      each => each.owner === holder.owner && isGentle(each) && isWorthTelling(each) && Date.parse(each.at) > since
    )
    .sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  if (fresh.length === 0) {
    return null;
  }
  const [outcome] = fresh;
  const { trans } = language;
  const when = moment(outcome.at, now, language);
  return { outcome, text: trans.__('%1: %2', when, resultText(outcome, trans)) };
}

/** `12.0 GiB in the memory of the host since 14:05`; null: it is not parked. */
export function parkedText(holder: WireHolder, now: number, language: ILanguage): string | null {
  const { parked } = holder;
  return parked
    ? language.trans.__(
        '%1 in the memory of the host since %2',
        bytes(parked.memory_bytes),
        moment(parked.since, now, language)
      )
    : null;
}

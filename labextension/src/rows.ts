import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, duration, percent, secondsUntil } from './format';
import { matches, orderOf, type Sort, USUAL } from './arrange';
import { aboutOf } from './kinds';
import type { ILanguage } from './language';
import { type INote, notesOf } from './notes';
import { type IOffer, offersOf } from './remedies';
import { holdsSomething, titleOf } from './owners';
import { type IPlace, placesOf } from './places';
import { type IReading, marked, reading } from './readings';
import { type ISpark, sparkOf } from './sparks';
import { coming, isEnding, type Tone, toneOf } from './standing';
import { type IWhy, whyOf } from './why';
import type { WireHolder, WireReport } from './wire';

/** One offer of the Keep menu. */
export interface IKeepChoice {
  readonly seconds: number;
  readonly label: string;
}

/** One notebook, terminal or TensorBoard, ready to be shown. */
export interface IRow {
  readonly owner: string;
  readonly kind: string;
  readonly title: string;
  /** The folder of a notebook, the logs of a TensorBoard. */
  readonly folder: string | null;
  readonly path: string | null;
  readonly kernelspec: string | null;
  readonly tone: Tone;
  readonly state: string;
  /** Null where it surely holds none: then neither is shown. */
  readonly memory: IReading | null;
  readonly compute: IReading | null;
  readonly spark: ISpark | null;
  readonly places: readonly IPlace[];
  readonly facts: readonly string[];
  readonly notes: readonly INote[];
  readonly kept: boolean;
  /** An act is under way: too late to keep it, and no need to shut it down. */
  readonly ending: boolean;
  readonly keepChoices: readonly IKeepChoice[];
  /** What may be done to it while it lives on. */
  readonly offers: readonly IOffer[];
  /** Whether there is a way to end it. */
  readonly canEnd: boolean;
  /** What is lost with it, in sentences: the question before it is ended. */
  readonly losses: readonly string[];
  /** Only while it is unfolded. */
  readonly why: IWhy | null;
}

const OFFERED_SECONDS = [1800, 3600, 7200, 14400, 28800];
/** Less than this is no longer: while a menu is read, time goes on. */
const LONGER_BY_SECONDS = 60;

/**
 * The rows of some kind, in order: as a rule what is about to be lost first, then by memory, then by name. A kernel has
 * one if it holds something; terminals and TensorBoards always.
 */
export function rowsOf(
  wanted: string | ((kind: string) => boolean),
  report: WireReport,
  now: number,
  language: ILanguage,
  unfolded: ReadonlySet<string>,
  arrangement: { readonly sort: Sort; readonly filter: string } = USUAL
): IRow[] {
  const isOfKind = typeof wanted === 'string' ? (kind: string) => kind === wanted : wanted;
  const filter = arrangement.filter.trim();
  return report.holders
    .filter(holder => isOfKind(holder.kind) && (holder.kind !== 'kernel' || holdsSomething(holder, report)))
    .filter(each => filter === '' || matches(filter, each.owner, each.name, each.notebook, each.kernelspec))
    .sort(orderOf(arrangement.sort, report))
    .map(holder => ({
      ...row(holder, report, now, language),
      why: unfolded.has(holder.owner) ? whyOf(holder, report, now, language) : null
    }));
}

/**
 * What may be asked for at once: the usual spans up to the longest, and the longest. Of these, only what is longer than
 * a promise that already runs for `keptSeconds`: a shorter one would take from it.
 */
export function keepChoices(longestSeconds: number, trans: TranslationBundle, keptSeconds = 0): IKeepChoice[] {
  const longest = Math.floor(longestSeconds);
  const spans = OFFERED_SECONDS.filter(seconds => seconds <= longest);
  if (longest > 0 && longest < OFFERED_SECONDS[OFFERED_SECONDS.length - 1] && !spans.includes(longest)) {
    spans.push(longest);
  }
  const longer = keptSeconds <= 0 ? spans : spans.filter(seconds => seconds > keptSeconds + LONGER_BY_SECONDS);
  return longer.map(seconds => ({ seconds, label: duration(seconds, trans) }));
}

function row(holder: WireHolder, report: WireReport, now: number, language: ILanguage): Omit<IRow, 'why'> {
  const { trans } = language;
  const ending = isEnding(holder, report);
  const about = aboutOf(holder, report, now, language);
  const estimated = holder.estimated === true;
  const spent = holder.keeps_left === 0;
  const counts = holder.kind === 'kernel' || holdsSomething(holder, report);
  const shown = (figure: IReading): IReading | null => (counts ? marked(figure, estimated, trans) : null);
  return {
    owner: holder.owner,
    kind: holder.kind,
    title: titleOf(holder),
    folder: about.folder,
    path: holder.kind === 'kernel' ? holder.notebook : null,
    kernelspec: holder.kernelspec,
    tone: toneOf(holder, report),
    state: [about.state, coming(holder, report, now, language)].filter(text => text !== null).join(trans.__(', ')),
    memory: shown(reading(holder.memory_bytes, holder.memory_bytes_unknown, bytes, trans)),
    compute: shown(reading(holder.compute_percent, holder.compute_percent_unknown, percent, trans)),
    spark: counts ? sparkOf(holder.history, trans) : null,
    places: placesOf(holder, report, trans),
    facts: spent ? [...about.facts, trans.__('kept as often as its rule allows in 24 hours')] : about.facts,
    notes: notesOf(holder, report, now, language),
    kept: holder.lease !== null,
    ending,
    keepChoices:
      ending || spent || holder.state === 'dead'
        ? []
        : keepChoices(
            holder.longest_keep_seconds,
            trans,
            holder.lease === null ? 0 : secondsUntil(holder.lease.until, now)
          ),
    offers: ending ? [] : offersOf(holder, trans),
    canEnd: holder.offers === undefined || holder.offers.includes('shutdown'),
    losses: about.losses
  };
}

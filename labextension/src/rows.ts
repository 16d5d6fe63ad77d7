import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, duration, moment, percent, secondsUntil } from './format';
import type { ILanguage } from './language';
import { type IReading, notKnown, reading } from './readings';
import { protectionText, reasonText, stateWord } from './words';
import type { REASON_CODES, WireDevice, WireHolder, WireNotice, WireProcess, WireReport } from './wire';

/** How a row looks, besides what it says. */
export type Tone = 'busy' | 'idle' | 'kept' | 'warned' | 'unknown' | 'over';

/** One offer of the Keep menu. */
export interface IKeepChoice {
  readonly seconds: number;
  readonly label: string;
}

/** What one owner has on one device: `GPU 0: 4.0 GiB, 35 %`. */
export interface IPlace {
  readonly device: string;
  readonly text: string;
  readonly title?: string;
}

/** The argument behind a row, in sentences. */
export interface IWhy {
  readonly reasons: readonly string[];
  readonly protections: readonly string[];
  readonly unknowns: readonly string[];
  readonly processes: readonly string[];
  readonly leftovers: readonly string[];
}

/** One notebook, terminal or TensorBoard, ready to be shown. */
export interface IRow {
  readonly owner: string;
  readonly kind: WireHolder['kind'];
  readonly title: string;
  readonly folder: string | null;
  readonly path: string | null;
  readonly kernelspec: string | null;
  readonly tone: Tone;
  readonly state: string;
  readonly memory: IReading;
  readonly compute: IReading;
  readonly places: readonly IPlace[];
  readonly kept: boolean;
  /** An act is under way: too late to keep it, and no need to shut it down. */
  readonly ending: boolean;
  readonly keepChoices: readonly IKeepChoice[];
  /** Only while it is unfolded. */
  readonly why: IWhy | null;
}

const OFFERED_SECONDS = [1800, 3600, 7200, 14400, 28800];

/** The file's name, or what the server calls it. */
export function titleOf(about: { notebook: string | null; name: string }): string {
  return about.notebook?.split('/').pop() ?? about.name;
}

/** The warnings after which something is lost, the nearest first. The others are hints. */
export function threats(report: WireReport): (WireNotice & { deadline: string })[] {
  return report.notices
    .filter((notice): notice is WireNotice & { deadline: string } => notice.deadline !== null)
    .sort((a, b) => Date.parse(a.deadline) - Date.parse(b.deadline));
}

/** Whether this holder has a row of its own: it holds memory, may hold some, or has left some behind. */
export function holdsSomething(holder: WireHolder, report: WireReport): boolean {
  const mayHold = holder.memory_bytes === null && report.devices.length > 0;
  return mayHold || (holder.memory_bytes ?? 0) > 0 || holder.holdings.length > 0 || holder.leftovers.length > 0;
}

/** All rows: what is about to be lost first, then by memory, then by name. */
export function rowsOf(report: WireReport, now: number, language: ILanguage, unfolded: ReadonlySet<string>): IRow[] {
  const deadlines = new Map(threats(report).map(({ owner, deadline }) => [owner, Date.parse(deadline)]));
  const place = (holder: WireHolder): number => deadlines.get(holder.owner) ?? Infinity;
  return report.holders
    .filter(holder => holdsSomething(holder, report))
    .sort(
      (a, b) =>
        compare(place(a), place(b)) ||
        compare(b.memory_bytes ?? Infinity, a.memory_bytes ?? Infinity) ||
        titleOf(a).localeCompare(titleOf(b))
    )
    .map(holder => ({
      ...row(holder, report, now, language),
      why: unfolded.has(holder.owner) ? whyOf(holder, report, now, language) : null
    }));
}

/** What may be asked for at once: the usual spans up to the longest, and the longest. */
export function keepChoices(longestSeconds: number, trans: TranslationBundle): IKeepChoice[] {
  const longest = Math.floor(longestSeconds);
  const spans = OFFERED_SECONDS.filter(seconds => seconds <= longest);
  if (longest > 0 && longest < OFFERED_SECONDS[OFFERED_SECONDS.length - 1] && !spans.includes(longest)) {
    spans.push(longest);
  }
  return spans.map(seconds => ({ seconds, label: duration(seconds, trans) }));
}

/** `GPU 0`: short, and as other tools number it. A device that is not in the report goes by its UUID. */
export function deviceLabel(device: Pick<WireDevice, 'index'>): string {
  return `GPU ${device.index}`;
}

function labelOf(uuid: string, report: WireReport): string {
  const device = report.devices.find(candidate => candidate.uuid === uuid);
  return device ? deviceLabel(device) : uuid;
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

function row(holder: WireHolder, report: WireReport, now: number, language: ILanguage): Omit<IRow, 'why'> {
  const { trans } = language;
  const ending = isEnding(holder, report);
  const folders = holder.notebook?.split('/').slice(0, -1) ?? [];
  return {
    owner: holder.owner,
    kind: holder.kind,
    title: titleOf(holder),
    folder: folders.length ? folders.join('/') : null,
    path: holder.notebook,
    kernelspec: holder.kernelspec,
    tone: toneOf(holder, report),
    state: stateText(holder, report, now, language),
    memory: reading(holder.memory_bytes, holder.memory_bytes_unknown, bytes, trans),
    compute: reading(holder.compute_percent, holder.compute_percent_unknown, percent, trans),
    places: report.devices.length > 1 ? placesOf(holder, report, trans) : [],
    kept: holder.lease !== null,
    ending,
    keepChoices: ending ? [] : keepChoices(holder.longest_keep_seconds, trans)
  };
}

function placesOf(holder: WireHolder, report: WireReport, trans: TranslationBundle): IPlace[] {
  return holder.holdings.map(holding => {
    const device = labelOf(holding.device, report);
    const memory = reading(holding.memory_bytes, holding.memory_bytes_unknown, bytes, trans);
    const compute = reading(holding.compute_percent, holding.compute_percent_unknown, percent, trans);
    const alone = holder.holdings.length === 1; // then the row itself has the numbers
    return {
      device,
      text: alone ? device : trans.__('%1: %2, %3', device, memory.text, compute.text),
      title: memory.title ?? compute.title
    };
  });
}

function toneOf(holder: WireHolder, report: WireReport): Tone {
  if (isEnding(holder, report) || threats(report).some(notice => notice.owner === holder.owner)) {
    return 'warned';
  }
  if (holder.lease) {
    return 'kept';
  }
  if (holder.state === 'dead') {
    return 'over';
  }
  if (holder.memory_bytes === null || holder.compute_percent === null) {
    return 'unknown';
  }
  return holder.state === 'executing' || hasReason(holder, 'computing') ? 'busy' : 'idle';
}

function isEnding(holder: WireHolder, report: WireReport): boolean {
  return hasReason(holder, 'acting') || (report.mode === 'enforce' && holder.verdict.action === 'shutdown');
}

function hasReason(holder: WireHolder, code: (typeof REASON_CODES)[number]): boolean {
  return holder.verdict.reasons.some(reason => reason.code === code);
}

/** `idle 1 h 20 min, shut down in 14 min by rule default`. */
function stateText(holder: WireHolder, report: WireReport, now: number, language: ILanguage): string {
  const is = [doing(holder, language.trans), ...leftBehind(holder, language.trans)].join(language.trans.__(', '));
  const next = coming(holder, report, now, language);
  return next === null ? is : is + language.trans.__(', ') + next;
}

function leftBehind(holder: WireHolder, trans: TranslationBundle): string[] {
  if (holder.leftovers.length === 0) {
    return [];
  }
  const amounts = holder.leftovers.map(process => process.memory_bytes);
  const sum = amounts.includes(null) ? null : amounts.reduce<number>((total, amount) => total + (amount ?? 0), 0);
  return [trans.__('%1 left behind by an earlier kernel', reading(sum, null, bytes, trans).text)];
}

function doing(holder: WireHolder, trans: TranslationBundle): string {
  const idle = holder.idle_seconds === null ? null : duration(holder.idle_seconds, trans);
  switch (holder.state) {
    case 'executing':
      return idle === null || hasReason(holder, 'computing')
        ? stateWord('executing', trans)
        : trans.__('running, no compute for %1', idle);
    case 'starting':
    case 'dead':
      return stateWord(holder.state, trans);
    default:
      if (hasReason(holder, 'computing')) {
        return trans.__('computing');
      }
      if (idle !== null) {
        return trans.__('idle %1', idle);
      }
      return holder.compute_percent === null ? trans.__('compute not known') : trans.__('in use lately');
  }
}

function coming(holder: WireHolder, report: WireReport, now: number, language: ILanguage): string | null {
  const { trans } = language;
  const { action, next_action, deadline, rule } = holder.verdict;
  const observed = report.mode === 'observe';
  if (holder.lease) {
    return trans.__('kept until %1', moment(holder.lease.until, now, language));
  }
  if (hasReason(holder, 'acting')) {
    return trans.__('a step is under way');
  }
  if (action === 'shutdown') {
    return observed
      ? trans.__('would be shut down now by rule %1', rule)
      : trans.__('being shut down by rule %1', rule);
  }
  if (next_action === null || deadline === null) {
    return null;
  }
  const left = secondsUntil(deadline, now);
  if (next_action === 'warn') {
    const span = duration(left, trans);
    return observed ? trans.__('warning would come in %1', span) : trans.__('warning in %1', span);
  }
  if (left < 1) {
    return observed
      ? trans.__('would be shut down now by rule %1', rule)
      : trans.__('shut down at any moment by rule %1', rule);
  }
  const span = duration(left, trans);
  return observed
    ? trans.__('would be shut down in %1 by rule %2', span, rule)
    : trans.__('shut down in %1 by rule %2', span, rule);
}

function whyOf(holder: WireHolder, report: WireReport, now: number, language: ILanguage): IWhy {
  const { trans } = language;
  const { reasons, rule } = holder.verdict;
  const processText = (process: WireProcess): string =>
    trans.__(
      'Process %1 on %2: %3, since %4',
      process.pid,
      labelOf(process.device, report),
      reading(process.memory_bytes, process.memory_bytes_unknown, bytes, trans).text,
      moment(process.started_at, now, language)
    );
  const sentences = reasons.map(reason => reasonText(reason, now, language));
  if (holder.lease?.reason && !hasReason(holder, 'leased')) {
    sentences.push(trans.__('Kept because: %1', holder.lease.reason));
  }
  return {
    reasons: [...sentences, trans.__('Rule: %1.', rule)],
    protections: holder.protections
      .filter(code => !reasons.some(reason => reason.code === SAID_BY[code]))
      .map(code => protectionText(code, trans)),
    unknowns: unknownsOf(holder, trans),
    processes: holder.holdings.flatMap(holding => holding.processes.map(processText)),
    leftovers: holder.leftovers.map(processText)
  };
}

/** A protection is not told again where a reason already says so. */
const SAID_BY: Partial<Record<string, string>> = {
  leased: 'leased',
  unknown: 'unknown-reading',
  exempt: 'rule-keeps'
};

/** What is not known, where no reason says so already. */
function unknownsOf(holder: WireHolder, trans: TranslationBundle): string[] {
  const told = (what: string): boolean =>
    holder.verdict.reasons.some(reason => reason.code === 'unknown-reading' && reason.facts.what === what);
  const unknowns: string[] = [];
  if (holder.memory_bytes === null && !told('memory')) {
    unknowns.push(trans.__('GPU memory: %1', notKnown(holder.memory_bytes_unknown, trans)));
  }
  if (holder.compute_percent === null && !told('compute')) {
    unknowns.push(trans.__('Compute: %1', notKnown(holder.compute_percent_unknown, trans)));
  }
  return unknowns;
}

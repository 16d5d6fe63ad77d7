import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, duration, moment } from './format';
import type { ILanguage } from './language';
import { labelOf } from './places';
import { estimateText, marked, notKnown, reading } from './readings';
import { reasonText, reasonTexts } from './reasons';
import { hasReason, threats } from './standing';
import type { WireExplanation, WireHealth, WireHolder, WireProcess, WireReport } from './wire';
import { protectionText } from './words';

/** The argument behind a row, in sentences. */
export interface IWhy {
  readonly reasons: readonly string[];
  /** What follows, and when at the earliest. */
  readonly steps: readonly string[];
  readonly protections: readonly string[];
  readonly unknowns: readonly string[];
  readonly figures: readonly string[];
  readonly processes: readonly string[];
  readonly leftovers: readonly string[];
}

/** What the server says when it is asked for more. */
export interface IArgument {
  readonly lines: readonly string[];
  readonly passedOver: readonly string[];
}

/** From this share of a device on, it is a pool that a framework reserves at once. */
const POOL_SHARE = 0.7;

/** Why `holder` is judged as it is, and what its figures rest on. */
export function whyOf(holder: WireHolder, report: WireReport, now: number, language: ILanguage): IWhy {
  const { trans } = language;
  const { reasons, rule } = holder.verdict;
  const processText = (process: WireProcess): string =>
    trans.__(
      'Process %1 on %2: %3, since %4',
      process.pid,
      placeText(process, report, trans),
      marked(
        reading(process.memory_bytes, process.memory_bytes_unknown, bytes, trans),
        process.evidence === 'estimate',
        trans
      ).text,
      moment(process.started_at, now, language)
    );
  // The row itself says what is left behind.
  const told = reasons.filter(reason => reason.code !== 'left-behind' || holder.leftovers.length === 0);
  const sentences = reasonTexts(told, now, language, holder.estimated);
  if (holder.lease?.reason && !hasReason(holder, 'leased')) {
    sentences.push(trans.__('Kept because: %1', holder.lease.reason));
  }
  return {
    reasons: [...sentences, trans.__('Rule: %1.', rule)],
    steps: stepsOf(holder, report, now, language),
    protections: holder.protections
      .filter(code => !reasons.some(reason => reason.code === SAID_BY[code]))
      .map(code => protectionText(code, trans)),
    unknowns: unknownsOf(holder, trans),
    figures: figuresOf(holder, report, trans),
    processes: holder.holdings.flatMap(holding => holding.processes.map(processText)),
    leftovers: leftoversOf(holder, processText, trans)
  };
}

/** The next step, and the loss that was announced where another step comes before it. */
function stepsOf(holder: WireHolder, report: WireReport, now: number, language: ILanguage): string[] {
  const { trans } = language;
  const { next_action: next, deadline } = holder.verdict;
  const steps: string[] = [];
  if (holder.lease === null && next !== null && deadline !== null) {
    steps.push(trans.__('%1: %2', moment(deadline, now, language), stepWord(next, trans)));
  }
  const loss = threats(report).find(notice => notice.owner === holder.owner);
  if (loss !== undefined && next !== 'shutdown') {
    steps.push(trans.__('%1: %2', moment(loss.deadline, now, language), stepWord('shutdown', trans)));
  }
  return steps;
}

function stepWord(step: NonNullable<WireHolder['verdict']['next_action']>, trans: TranslationBundle): string {
  switch (step) {
    case 'warn':
      return trans.__('a warning');
    case 'release':
      return trans.__('it is asked to give back what it caches');
    case 'park':
      return trans.__('its GPU memory goes to the host');
    case 'shutdown':
      return trans.__('it is shut down, at the earliest');
  }
}

/** A protection is not told again where a reason already says so. */
const SAID_BY: Partial<Record<string, string>> = {
  leased: 'leased',
  unknown: 'unknown-reading',
  exempt: 'rule-keeps',
  attended: 'attended',
  estimated: 'estimated'
};

/** `GPU 0`, and by what way where that is not compute. */
function placeText(process: WireProcess, report: WireReport, trans: TranslationBundle): string {
  const device = labelOf(process.device, report);
  const types = (process.type ?? 'C').split('+');
  if (types.includes('M')) {
    return trans.__('%1 (through the multi-process service)', device);
  }
  return types.includes('C') ? device : trans.__('%1 (graphics)', device);
}

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

/** What the figures mean, and what they rest on where it is not the driver's word for each process. */
function figuresOf(holder: WireHolder, report: WireReport, trans: TranslationBundle): string[] {
  if (holder.holdings.length === 0) {
    return [];
  }
  const lines = [
    trans.__(
      'Memory is what its processes reserve. How much of that is in use inside them cannot be seen from outside.'
    )
  ];
  if (holder.holdings.some(holding => isPool(holding, report))) {
    lines.push(
      trans.__(
        'This is most of the GPU. A framework that reserves it all at once keeps it for as long as the process lives: then only ending the process gives it back.'
      )
    );
  }
  if (holder.kind !== 'tensorboard' && (holder.idle_seconds ?? 0) >= 1 && !hasReason(holder, 'computing')) {
    lines.push(trans.__('Last compute: at least %1 ago.', duration(holder.idle_seconds ?? 0, trans)));
  }
  if (holder.estimated && !hasReason(holder, 'estimated')) {
    lines.push(estimateText(trans));
  }
  if (!hasReason(holder, 'sole-owner')) {
    lines.push(
      ...holder.holdings
        .filter(holding => holding.evidence === 'sole-owner')
        .map(({ device }) =>
          trans.__('Compute on %1 is that of the whole device, on which it is alone.', labelOf(device, report))
        )
    );
  }
  return lines;
}

function isPool(holding: WireHolder['holdings'][number], report: WireReport): boolean {
  const total = report.devices.find(device => device.uuid === holding.device)?.memory_total_bytes ?? 0;
  return total > 0 && (holding.memory_bytes ?? 0) >= POOL_SHARE * total;
}

/** The processes left behind, and what a person can do about them. */
function leftoversOf(
  holder: WireHolder,
  processText: (process: WireProcess) => string,
  trans: TranslationBundle
): string[] {
  if (holder.leftovers.length === 0) {
    return [];
  }
  const pids = [...new Set(holder.leftovers.map(process => process.pid))];
  return [
    ...holder.leftovers.map(processText),
    trans.__('They are not charged to the present kernel. If nobody needs them: %1', `kill ${pids.join(' ')}`)
  ];
}

/** The whole argument, line by line; in English where the server says it only so. */
export function argumentTexts(told: WireExplanation, now: number, language: ILanguage): string[] {
  const lines = told.argument ?? [];
  return lines.length === 0
    ? [...told.lines]
    : lines.map(line => reasonText(line, now, language, told.holder.estimated));
}

/** What the guard cannot do now. */
export function problemTexts(health: WireHealth, now: number, language: ILanguage): string[] {
  const said = health.said ?? [];
  return said.length === 0 ? [...health.problems] : said.map(each => reasonText(each, now, language));
}

import { type IArrangement, mainDevice, USUAL } from './arrange';
import { costOf } from './cost';
import { type IDeviceCard, devicesOf } from './devices';
import { bytes, duration, moment, NOT_KNOWN, secondsUntil } from './format';
import { detailText, groundsOf, isEnd } from './endings';
import type { ILanguage } from './language';
import { originText } from './origin';
import { holdsSomething, isKernel, titleOf } from './owners';
import { inOrder, labelOf } from './places';
import { about } from './readings';
import { reasonText, reasonTexts } from './reasons';
import { isGentle, isWorthTelling } from './remedies';
import { type IRow, rowsOf } from './rows';
import { threats } from './standing';
import { labelled, resultText } from './words';
import type { WireOutcome, WireReport } from './wire';

/** A line about something that went wrong, or that one should know. */
export interface IRemark {
  readonly key: string;
  readonly text: string;
}

/** What was done to one owner. */
export interface IPast {
  readonly id: string;
  readonly text: string;
  readonly detail: string;
  readonly failed: boolean;
}

/** The rows under one device. */
export interface IGroup {
  readonly key: string;
  readonly title: string;
  readonly rows: readonly IRow[];
}

/** Everything the sidebar shows, in words. A pure function of the report and the time. */
export interface IPanelView {
  readonly simulated: boolean;
  readonly observing: boolean;
  readonly policyFault: string | null;
  /** Set while a new policy waits for a person. */
  readonly policyWaits: string | null;
  /** Set when the guard itself has stopped looking. */
  readonly late: string | null;
  readonly gaps: readonly IRemark[];
  /** What is held without work costs; null: no price is set, or nothing is. */
  readonly cost: { readonly text: string; readonly title: string } | null;
  /** Kernels that hold something. */
  readonly rows: readonly IRow[];
  /** The same under their devices; null: not asked for. */
  readonly groups: readonly IGroup[] | null;
  /** How many rows there are without the filter. */
  readonly countAll: number;
  readonly boards: readonly IRow[];
  readonly terminals: readonly IRow[];
  /** Processes that outlived their kernel. */
  readonly leftBehind: readonly IRow[];
  /** Owners of a kind that is newer than this page. */
  readonly others: readonly IRow[];
  readonly quiet: { readonly text: string; readonly names: readonly string[] } | null;
  readonly devices: readonly IDeviceCard[];
  readonly past: readonly IPast[];
  readonly alarms: readonly string[];
  readonly footer: string;
}

const KINDS = ['kernel', 'tensorboard', 'terminal', 'leftovers'];
const PAST_SHOWN = 8;
const LATE_SECONDS = 30;

/** `report` as it is shown at `now` (milliseconds on the server's clock), with the rows of these owners unfolded. */
export function viewOf(
  report: WireReport,
  now: number,
  language: ILanguage,
  unfolded: ReadonlySet<string>,
  arrangement: IArrangement = USUAL
): IPanelView {
  const { trans } = language;
  const of = (kind: string): IRow[] => rowsOf(kind, report, now, language, unfolded, arrangement);
  const rows = of('kernel');
  return {
    simulated: report.simulated,
    observing: report.mode === 'observe',
    policyFault: report.policy.said ? reasonText(report.policy.said, now, language) : report.policy.fault,
    policyWaits: waitsOf(report, language),
    late: lateOf(report, now, language),
    gaps: report.gaps.map(gap => ({
      key: `${gap.source} ${gap.since}`,
      text: trans.__(
        '%1 (since %2)',
        gap.said ? reasonText(gap.said, now, language) : gap.why,
        moment(gap.since, now, language)
      )
    })),
    cost: costOf(report, language),
    rows,
    groups: arrangement.grouped ? groupsOf(rows, report, language) : null,
    countAll: report.holders.filter(each => each.kind !== 'kernel' || holdsSomething(each, report)).length,
    boards: of('tensorboard'),
    terminals: of('terminal'),
    leftBehind: of('leftovers'),
    others: rowsOf(kind => !KINDS.includes(kind), report, now, language, unfolded, arrangement),
    quiet: quietOf(report, language),
    devices: devicesOf(report, trans),
    past: pastOf(report, now, language),
    alarms: threats(report).map(notice =>
      trans.__(
        '%1 will be shut down at %2 unless it is used or kept.',
        titleOf(notice),
        moment(notice.deadline, now, language)
      )
    ),
    footer: trans.__('Policy: %1', originText(report.policy.source, trans, fileName))
  };
}

/** The memory of all of this server's owners, for the status bar: `GPU 6.0 GiB`. */
export function summaryOf(report: WireReport, now: number, language: ILanguage): { text: string; title: string } {
  const { trans } = language;
  const known = report.holders.map(holder => holder.memory_bytes).filter(amount => amount !== null);
  const unknown = report.holders.length - known.length;
  const sum = known.reduce((total, amount) => total + amount, 0);
  const inferred = report.holders.some(holder => holder.estimated && holder.memory_bytes !== 0);
  const size = unknown > 0 && sum === 0 ? NOT_KNOWN : inferred ? about(bytes(sum)) : bytes(sum);
  const label = (text: string): string => labelled(text, report.simulated, trans);
  const lines = [label(trans.__('GPU memory held by my notebooks: %1', size))];
  if (unknown > 0) {
    lines.push(trans._n('%1 more is not known', '%1 more are not known', unknown));
  }
  const nearest = threats(report)[0] as ReturnType<typeof threats>[number] | undefined;
  if (nearest === undefined) {
    return { text: label(trans.__('GPU %1', size)), title: lines.join('\n') };
  }
  const left = duration(Math.max(1, secondsUntil(nearest.deadline, now)), trans);
  lines.push(trans.__('%1 will be shut down in %2', titleOf(nearest), left));
  return { text: label(trans.__('GPU %1 · %2 left', size, left)), title: lines.join('\n') };
}

/** Each row under the device on which it holds most, in the order of the devices. */
function groupsOf(rows: readonly IRow[], report: WireReport, { trans }: ILanguage): IGroup[] {
  const devices = new Map(report.holders.map(holder => [holder.owner, mainDevice(holder)]));
  const under = (device: string | null): IRow[] => rows.filter(row => (devices.get(row.owner) ?? null) === device);
  const known = inOrder(report.devices).map(device => device.uuid);
  const unknown = [...new Set(devices.values())].filter(uuid => uuid !== null && !known.includes(uuid)) as string[];
  return [
    ...[...known, ...unknown].map(uuid => ({ key: uuid, title: labelOf(uuid, report), rows: under(uuid) })),
    { key: '', title: trans.__('On no device'), rows: under(null) }
  ].filter(group => group.rows.length > 0);
}

function lateOf(report: WireReport, now: number, { trans }: ILanguage): string | null {
  const age = report.taken_at === null ? 0 : -secondsUntil(report.taken_at, now);
  return age > Math.max(LATE_SECONDS, 4 * report.interval_seconds)
    ? trans.__('The newest reading is %1 old.', duration(age, trans))
    : null;
}

function quietOf(report: WireReport, { trans }: ILanguage): IPanelView['quiet'] {
  const quiet = report.holders.filter(holder => holder.kind === 'kernel' && !holdsSomething(holder, report));
  if (quiet.length === 0) {
    return null;
  }
  const unknown = quiet.some(holder => holder.memory_bytes === null);
  const count = quiet.length;
  return {
    text: unknown
      ? trans._n('%1 kernel, GPU memory not known', '%1 kernels, GPU memory not known', count)
      : trans._n('%1 kernel without GPU memory', '%1 kernels without GPU memory', count),
    names: quiet.map(titleOf).sort((a, b) => a.localeCompare(b))
  };
}

function pastOf(report: WireReport, now: number, language: ILanguage): IPast[] {
  return report.outcomes
    .filter(
      outcome =>
        outcome.action === 'shutdown' || outcome.result === 'failed' || (isGentle(outcome) && isWorthTelling(outcome))
    )
    .sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
    .slice(0, PAST_SHOWN)
    .map(outcome => ({
      id: outcome.id,
      text: pastText(outcome, now, language),
      detail: [
        detailText(outcome, now, language),
        ...reasonTexts(groundsOf(outcome), now, language),
        outcome.by === null ? language.trans.__('Rule: %1.', outcome.rule) : ''
      ]
        .filter(text => text !== '')
        .join(' '),
      failed: outcome.result === 'failed' || outcome.survivors.length > 0
    }));
}

function pastText(outcome: WireOutcome, now: number, language: ILanguage): string {
  const { trans } = language;
  const parts = [moment(outcome.at, now, language), titleOf(outcome), resultText(outcome, trans)];
  if (outcome.action === 'park' && outcome.result === 'done' && (outcome.freed_bytes ?? 0) > 0) {
    parts.push(trans.__('%1 freed', bytes(outcome.freed_bytes ?? 0)));
  }
  if (isEnd(outcome) && outcome.freed_bytes !== null && (isKernel(outcome) || outcome.freed_bytes > 0)) {
    parts.push(trans.__('%1 freed', bytes(outcome.freed_bytes)));
  }
  return parts.join(' · ');
}

/** What a new policy waits for. */
function waitsOf({ policy: { pending } }: WireReport, { trans }: ILanguage): string | null {
  if (pending === undefined || pending === null) {
    return null;
  }
  const { touched, holders } = pending;
  return trans.__(
    'It would newly end %1 of %2 that hold GPU memory, so it waits until an administrator accepts it: %3',
    touched.length,
    holders,
    touched.map(each => each.name || each.owner).join(', ')
  );
}

/** The name of a policy file, without its folders. */
function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

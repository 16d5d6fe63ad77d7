import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, percent } from './format';
import { anyEstimate } from './owners';
import { deviceLabel, inOrder, parentOf } from './places';
import { type IReading, marked, reading } from './readings';
import { type ISpark, sparkOf } from './sparks';
import type { WireDevice, WireReport } from './wire';

/** Whose memory a part of the bar is. `unused` is the rest. */
export type PartKind = 'mine' | 'others' | 'unattributed' | 'unused';

/** A part of the memory bar: its words, and its share of the device from 0 to 1. */
export interface IPart {
  readonly kind: PartKind;
  readonly text: string;
  readonly share: number;
}

/** A reading with its name. */
export interface IFigure {
  readonly name: string;
  readonly reading: IReading;
}

/** One device, ready to be shown. */
export interface IDeviceCard {
  readonly uuid: string;
  readonly label: string;
  readonly name: string;
  readonly mig: boolean;
  /** It is a MIG instance, shown under its GPU. */
  readonly nested: boolean;
  /** Nobody is on it, nothing computes, and its memory is there to be had. */
  readonly free: boolean;
  readonly memory: IReading;
  readonly spark: ISpark | null;
  readonly parts: readonly IPart[];
  readonly figures: readonly IFigure[];
  readonly lines: readonly string[];
  readonly trouble: string | null;
}

/** A driver keeps a little for itself on a device that nobody uses. */
const UNUSED_SHARE = 0.05;
/** Less than this is what contexts cost besides what is listed. */
const UNATTRIBUTED_BYTES = 512 * 2 ** 20;

/** All devices by index, MIG instances under their GPU. */
export function devicesOf(report: WireReport, trans: TranslationBundle): IDeviceCard[] {
  return inOrder(report.devices).map(device => card(device, report, trans));
}

function card(device: WireDevice, report: WireReport, trans: TranslationBundle): IDeviceCard {
  const asleep = device.state === 'suspended';
  return {
    uuid: device.uuid,
    label: deviceLabel(device, report.devices),
    name: device.name,
    mig: device.mig,
    nested: parentOf(device, report.devices) !== undefined,
    free: isFree(device, report),
    memory: memoryOf(device, trans),
    spark: asleep ? null : sparkOf(device.history, trans),
    parts: asleep ? [] : partsOf(device, report, trans),
    figures: asleep ? [] : figuresOf(device, trans),
    lines: linesOf(device, report, trans),
    trouble: troubleOf(device, trans)
  };
}

/** Free is only what has both: no compute, and its memory. What is not known is not free. */
function isFree(device: WireDevice, report: WireReport): boolean {
  const { compute_percent: compute, memory_used_bytes: used, memory_total_bytes: total } = device;
  if (device.state !== 'ok' || compute === null || used === null || total === null) {
    return false;
  }
  const taken = rowsOn(device, report).length > 0 || (strangersOn(device, report)?.processes ?? 0) > 0;
  return !taken && compute < 1 && used < UNUSED_SHARE * total;
}

function memoryOf(device: WireDevice, trans: TranslationBundle): IReading {
  const used = reading(device.memory_used_bytes, device.memory_used_bytes_unknown, bytes, trans);
  const total = reading(device.memory_total_bytes, device.memory_total_bytes_unknown, bytes, trans);
  return { text: trans.__('%1 of %2', used.text, total.text), title: used.title ?? total.title };
}

/** The known parts only: a part that is not known is named, and takes no room. */
function partsOf(device: WireDevice, report: WireReport, trans: TranslationBundle): IPart[] {
  const total = device.memory_total_bytes;
  if (total === null || total <= 0) {
    return [];
  }
  const mine = rowsOn(device, report);
  const others = strangersOn(device, report);
  const used = device.memory_used_bytes;
  const amounts: [PartKind, number | null, (size: string) => string][] = [
    ['mine', sumOf(mine), size => trans.__('mine %1', size)],
    ['others', others === null ? 0 : others.memory_bytes, size => trans.__('others %1', size)],
    ['unattributed', device.memory_unattributed_bytes, size => trans.__('unattributed %1', size)],
    ['unused', used === null ? null : Math.max(0, total - used), size => trans.__('unused %1', size)]
  ];
  return amounts
    .filter(([kind, amount]) => amount !== 0 || kind === 'unused' || kind === 'mine')
    .map(([kind, amount, text]) => ({
      kind,
      text: text(marked(reading(amount, null, bytes, trans), kind === 'mine' && anyEstimate(mine), trans).text),
      share: Math.min(1, (amount ?? 0) / total)
    }));
}

interface IAmount {
  readonly memory_bytes: number | null;
  readonly evidence?: string;
}

/** The sum; null where any of it is not known. */
function sumOf(rows: readonly IAmount[]): number | null {
  return rows.reduce<number | null>(
    (sum, { memory_bytes: amount }) => (sum === null || amount === null ? null : sum + amount),
    0
  );
}

/** The device and the MIG instances that are cut from it. */
function withParts(device: WireDevice, report: WireReport): string[] {
  return [device.uuid, ...report.devices.filter(part => part.part_of === device.uuid).map(part => part.uuid)];
}

/** What this server's owners hold on the device, leftovers too. */
function rowsOn(device: WireDevice, report: WireReport): IAmount[] {
  const uuids = withParts(device, report);
  // What a kernel left behind is shown with it, and counts in the row that it has by itself.
  const counted = new Set(
    report.holders.flatMap(each => each.holdings.flatMap(of => of.processes.map(row => row.pid)))
  );
  return report.holders.flatMap(holder => [
    ...holder.holdings.filter(holding => uuids.includes(holding.device)),
    ...holder.leftovers.filter(process => uuids.includes(process.device) && !counted.has(process.pid))
  ]);
}

/** What others hold on it; null: nobody else is there. */
function strangersOn(
  device: WireDevice,
  report: WireReport
): { processes: number; memory_bytes: number | null; why?: string | null } | null {
  const uuids = withParts(device, report);
  const lines = report.strangers.filter(line => uuids.includes(line.device) && line.processes > 0);
  if (lines.length === 0) {
    return null;
  }
  return {
    processes: lines.reduce((sum, line) => sum + line.processes, 0),
    memory_bytes: sumOf(lines),
    why: lines.find(line => line.memory_bytes === null)?.memory_bytes_unknown
  };
}

function figuresOf(device: WireDevice, trans: TranslationBundle): IFigure[] {
  const celsius = (value: number): string => `${Math.round(value)} °C`;
  const watts = (value: number): string => `${Math.round(value)} W`;
  return [
    {
      name: trans.__('Compute'),
      reading: reading(device.compute_percent, device.compute_percent_unknown, percent, trans)
    },
    {
      name: trans.__('Temperature'),
      reading: reading(device.temperature_celsius, device.temperature_celsius_unknown, celsius, trans)
    },
    { name: trans.__('Power'), reading: reading(device.power_watts, device.power_watts_unknown, watts, trans) }
  ];
}

/** What else is to be said of it, calmly. */
function linesOf(device: WireDevice, report: WireReport, trans: TranslationBundle): string[] {
  const lines: string[] = [];
  if (device.state === 'suspended') {
    lines.push(trans.__('Asleep: nobody uses it. It is not read, since that would wake it up.'));
  }
  const strangers = strangersOn(device, report);
  if (strangers !== null) {
    lines.push(
      trans._n(
        '%1 other process, not of this server: %2',
        '%1 other processes, not of this server: %2',
        strangers.processes,
        reading(strangers.memory_bytes, strangers.why, bytes, trans).text
      )
    );
  }
  const unattributed = device.memory_unattributed_bytes ?? 0;
  if (unattributed >= UNATTRIBUTED_BYTES) {
    lines.push(
      trans.__(
        '%1 of it is used by processes that the driver does not list. No notebook is charged for it.',
        bytes(unattributed)
      )
    );
  }
  return lines;
}

function troubleOf(device: WireDevice, trans: TranslationBundle): string | null {
  switch (device.state) {
    case 'lost':
      return trans.__('This device is lost: it fell off the bus or needs a reset.');
    case 'failing':
      return trans.__('This device answers with errors.');
    default:
      return null;
  }
}

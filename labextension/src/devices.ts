import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, percent } from './format';
import { type IReading, reading } from './readings';
import { deviceLabel } from './rows';
import type { WireDevice, WireReport } from './wire';

/** Whose memory a part of the bar is. `free` is the rest. */
export type PartKind = 'mine' | 'others' | 'unattributed' | 'free';

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
  readonly memory: IReading;
  readonly parts: readonly IPart[];
  readonly figures: readonly IFigure[];
  readonly strangers: string | null;
  readonly trouble: string | null;
}

/** All devices by index. */
export function devicesOf(report: WireReport, trans: TranslationBundle): IDeviceCard[] {
  return [...report.devices].sort((a, b) => a.index - b.index).map(device => card(device, report, trans));
}

function card(device: WireDevice, report: WireReport, trans: TranslationBundle): IDeviceCard {
  return {
    uuid: device.uuid,
    label: deviceLabel(device),
    name: device.name,
    mig: device.mig,
    memory: memoryOf(device, trans),
    parts: partsOf(device, report, trans),
    figures: figuresOf(device, trans),
    strangers: strangersOf(device, report, trans),
    trouble: troubleOf(device, trans)
  };
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
  const mine = mineOn(device.uuid, report);
  const others = report.strangers.find(line => line.device === device.uuid);
  const used = device.memory_used_bytes;
  const amounts: [PartKind, number | null, (size: string) => string][] = [
    ['mine', mine, size => trans.__('mine %1', size)],
    ['others', others ? others.memory_bytes : 0, size => trans.__('others %1', size)],
    ['unattributed', device.memory_unattributed_bytes, size => trans.__('unattributed %1', size)],
    ['free', used === null ? null : Math.max(0, total - used), size => trans.__('free %1', size)]
  ];
  return amounts
    .filter(([kind, amount]) => amount !== 0 || kind === 'free' || kind === 'mine')
    .map(([kind, amount, text]) => ({
      kind,
      text: text(reading(amount, null, bytes, trans).text),
      share: Math.min(1, (amount ?? 0) / total)
    }));
}

/** What this server's owners hold on the device, leftovers too; null where any of it is not known. */
function mineOn(uuid: string, report: WireReport): number | null {
  const amounts = report.holders.flatMap(holder => [
    ...holder.holdings.filter(holding => holding.device === uuid).map(holding => holding.memory_bytes),
    ...holder.leftovers.filter(process => process.device === uuid).map(process => process.memory_bytes)
  ]);
  return amounts.reduce<number | null>((sum, amount) => (sum === null || amount === null ? null : sum + amount), 0);
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

function strangersOf(device: WireDevice, report: WireReport, trans: TranslationBundle): string | null {
  const line = report.strangers.find(candidate => candidate.device === device.uuid);
  if (!line || line.processes === 0) {
    return null;
  }
  const memory = reading(line.memory_bytes, line.memory_bytes_unknown, bytes, trans).text;
  return trans._n(
    '%1 other process, not of this server: %2',
    '%1 other processes, not of this server: %2',
    line.processes,
    memory
  );
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

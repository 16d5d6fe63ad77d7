import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes, percent } from './format';
import { marked, reading } from './readings';
import type { WireDevice, WireHolder, WireReport } from './wire';

/** What one owner has on one device: `GPU 0: 4.0 GiB, 35 %`. */
export interface IPlace {
  readonly device: string;
  /** Empty where there is only one device: the row itself has the numbers. */
  readonly text: string;
  readonly title?: string;
  /** How much of the device's memory it has, from 0 to 1; null: not known. */
  readonly share: number | null;
  readonly shareText: string;
}

/** By index, each GPU followed by the MIG instances that are cut from it. */
export function inOrder(devices: readonly WireDevice[]): WireDevice[] {
  const byIndex = [...devices].sort((a, b) => a.index - b.index);
  const parents = byIndex.filter(device => parentOf(device, devices) === undefined);
  return parents.flatMap(parent => [parent, ...byIndex.filter(device => device.part_of === parent.uuid)]);
}

/** The GPU that a MIG instance is cut from, if that is in the report too. */
export function parentOf(device: WireDevice, devices: readonly WireDevice[]): WireDevice | undefined {
  return devices.find(candidate => candidate.uuid === device.part_of && candidate !== device);
}

/** `GPU 0`: short, and as other tools number it; `GPU 0, MIG 1` for the second part of it. */
export function deviceLabel(device: WireDevice, devices: readonly WireDevice[]): string {
  const parent = parentOf(device, devices);
  if (parent === undefined) {
    return `GPU ${device.index}`;
  }
  // Counted here: the index of an instance is its own only in some reports.
  const parts = inOrder(devices).filter(candidate => candidate.part_of === parent.uuid);
  return `GPU ${parent.index}, MIG ${parts.indexOf(device)}`;
}

/** A device that is not in the report goes by its UUID. */
export function labelOf(uuid: string, report: WireReport): string {
  const device = report.devices.find(candidate => candidate.uuid === uuid);
  return device ? deviceLabel(device, report.devices) : uuid;
}

/** Where a holder is, and how much of it is where. */
export function placesOf(holder: WireHolder, report: WireReport, trans: TranslationBundle): IPlace[] {
  return holder.holdings.map(holding => {
    const device = labelOf(holding.device, report);
    const total = report.devices.find(each => each.uuid === holding.device)?.memory_total_bytes ?? null;
    const held = holding.memory_bytes;
    const estimate = holding.evidence === 'estimate';
    const memory = marked(reading(holding.memory_bytes, holding.memory_bytes_unknown, bytes, trans), estimate, trans);
    const compute = marked(
      reading(holding.compute_percent, holding.compute_percent_unknown, percent, trans),
      estimate,
      trans
    );
    const alone = holder.holdings.length === 1; // then the row itself has the numbers
    return {
      device,
      text: report.devices.length < 2 ? '' : alone ? device : trans.__('%1: %2, %3', device, memory.text, compute.text),
      title: memory.title ?? compute.title,
      share: held === null || total === null || total <= 0 ? null : Math.min(1, held / total),
      shareText: trans.__('%1 of %2', memory.text, reading(total, null, bytes, trans).text)
    };
  });
}

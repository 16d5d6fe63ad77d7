import { duration } from './format';
import type { ILanguage } from './language';
import { hasReason } from './standing';
import type { WireHolder, WireReport } from './wire';

/** Shorter than this is a pause between two cells, and not idleness. */
const IDLE_SECONDS = 60;
const HOUR = 3600;

/** What is held without work now, as a share of whole GPUs, and since when in GPU hours. */
export interface IIdleShare {
  readonly gpus: number;
  readonly gpuHours: number;
  readonly longestSeconds: number;
}

/** By its share of each device's memory. What is not known is left out: it is not known to be idle. */
export function idleShare(report: WireReport): IIdleShare {
  let gpus = 0;
  let gpuHours = 0;
  let longestSeconds = 0;
  for (const holder of report.holders) {
    const share = isIdle(holder) ? shareOf(holder, report) : 0;
    if (share > 0) {
      gpus += share;
      gpuHours += (share * (holder.idle_seconds ?? 0)) / HOUR;
      longestSeconds = Math.max(longestSeconds, holder.idle_seconds ?? 0);
    }
  }
  return { gpus, gpuHours, longestSeconds };
}

/** What that costs; null where no price is set, or nothing is held without work. */
export function costOf(report: WireReport, language: ILanguage): { text: string; title: string } | null {
  const { trans } = language;
  const { price } = report;
  const { gpus, gpuHours, longestSeconds } = idleShare(report);
  if (!price || gpus <= 0) {
    return null;
  }
  const money = (amount: number): string => moneyText(amount, price.currency, language);
  return {
    text: trans.__(
      'Held without work: %1 an hour, %2 so far',
      money(gpus * price.gpu_hour),
      money(gpuHours * price.gpu_hour)
    ),
    title: trans.__(
      '%1 of a GPU by its share of the memory, idle for up to %2. A GPU costs %3 an hour.',
      number(gpus, language),
      duration(longestSeconds, trans),
      money(price.gpu_hour)
    )
  };
}

function isIdle(holder: WireHolder): boolean {
  return (holder.idle_seconds ?? 0) >= IDLE_SECONDS && !hasReason(holder, 'computing') && holder.estimated !== true;
}

function shareOf(holder: WireHolder, report: WireReport): number {
  return holder.holdings.reduce((sum, { device, memory_bytes: held }) => {
    const total = wholeMemory(device, report);
    return held === null || total === null || total <= 0 ? sum : sum + Math.min(1, held / total);
  }, 0);
}

/** The memory of the whole GPU, also for an instance that is cut from it. */
function wholeMemory(uuid: string, report: WireReport): number | null {
  const device = report.devices.find(each => each.uuid === uuid);
  const whole = report.devices.find(each => each.uuid === device?.part_of) ?? device;
  return whole?.memory_total_bytes ?? null;
}

function number(amount: number, { locale }: ILanguage): string {
  return new Intl.NumberFormat(locale, { maximumFractionDigits: 2 }).format(amount);
}

/** `1.20 €`, `€1.20`, `12.5 credits`: as the language writes it where the currency is one of the world's. */
function moneyText(amount: number, currency: string, language: ILanguage): string {
  if (/^[A-Z]{3}$/.test(currency)) {
    return new Intl.NumberFormat(language.locale, { style: 'currency', currency }).format(amount);
  }
  const text = new Intl.NumberFormat(language.locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return `${text.format(amount)} ${currency}`.trim();
}

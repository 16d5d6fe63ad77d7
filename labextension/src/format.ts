import type { TranslationBundle } from '@jupyterlab/translation';
import type { ILanguage } from './language';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** What stands in place of a reading that is not known. Never a number. */
export const NOT_KNOWN = '–';

/** Memory in the unit in which GPUs are sold: `6.0 GiB`, `512 MiB`. */
export function bytes(amount: number): string {
  if (amount > 0 && amount < MIB) {
    return '< 1 MiB';
  }
  if (amount < GIB - MIB / 2) {
    return `${Math.round(amount / MIB)} MiB`;
  }
  return `${(amount / GIB).toFixed(1)} GiB`;
}

/** A share of a device, in whole percent. What is small is not called nothing. */
export function percent(share: number): string {
  return share > 0 && share < 1 ? '< 1 %' : `${Math.round(share)} %`;
}

/** A span of time in at most two units: `45 s`, `14 min`, `1 h 20 min`, `3 d 4 h`. Below two minutes in seconds. */
export function duration(seconds: number, trans: TranslationBundle): string {
  const span = Math.max(0, Math.floor(seconds));
  if (span < 2 * MINUTE) {
    return trans.__('%1 s', span);
  }
  if (span < HOUR) {
    return trans.__('%1 min', Math.floor(span / MINUTE));
  }
  if (span < 2 * DAY) {
    const minutes = Math.floor((span % HOUR) / MINUTE);
    const hours = Math.floor(span / HOUR);
    return minutes === 0 ? trans.__('%1 h', hours) : trans.__('%1 h %2 min', hours, minutes);
  }
  const hours = Math.floor((span % DAY) / HOUR);
  const days = Math.floor(span / DAY);
  return hours === 0 ? trans.__('%1 d', days) : trans.__('%1 d %2 h', days, hours);
}

interface IClock {
  readonly time: Intl.DateTimeFormat;
  readonly day: Intl.DateTimeFormat;
}

// Making a formatter costs far more than using it, and a panel has hundreds of moments.
const clocks = new Map<string | undefined, IClock>();

function clockOf(locale: string | undefined): IClock {
  let clock = clocks.get(locale);
  if (clock === undefined) {
    clock = {
      time: new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
      day: new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short' })
    };
    clocks.set(locale, clock);
  }
  return clock;
}

/** A moment on the wall clock: the time today, with the date on any other day. `now` in milliseconds. */
export function moment(iso: string, now: number, language: ILanguage): string {
  const then = new Date(iso);
  const { time, day } = clockOf(language.locale);
  const at = time.format(then);
  return then.toDateString() === new Date(now).toDateString() ? at : `${day.format(then)}, ${at}`;
}

/** Seconds from `now` (milliseconds) until `iso`; negative when it is past. */
export function secondsUntil(iso: string, now: number): number {
  return (Date.parse(iso) - now) / 1000;
}

/** `text` cut in its middle to at most `length` characters, so that a file's ending stays. */
export function shorten(text: string, length: number): string {
  const characters = Array.from(text);
  if (characters.length <= length) {
    return text;
  }
  const head = Math.floor((length - 1) / 2);
  const tail = length - 1 - head;
  return `${characters.slice(0, head).join('')}…${characters.slice(characters.length - tail).join('')}`;
}

import type { TranslationBundle } from '@jupyterlab/translation';
import { leftMemory, titleOf } from './owners';
import { threats } from './standing';
import type { WireHolder, WireReport } from './wire';

/** By what rows are put in order. `due`: what is about to be lost first, then by memory. */
export const SORTS = ['due', 'memory', 'compute', 'idle', 'name'] as const;
export type Sort = (typeof SORTS)[number];

/** How a person wants to see the rows. */
export interface IArrangement {
  readonly sort: Sort;
  /** Under the device where each holds most. */
  readonly grouped: boolean;
  /** Only rows with this text somewhere; empty: all. */
  readonly filter: string;
}

export const USUAL: IArrangement = { sort: 'due', grouped: false, filter: '' };

export function sortText(sort: Sort, trans: TranslationBundle): string {
  switch (sort) {
    case 'due':
      return trans.__('Due first');
    case 'memory':
      return trans.__('GPU memory');
    case 'compute':
      return trans.__('Compute');
    case 'idle':
      return trans.__('Idle time');
    case 'name':
      return trans.__('Name');
  }
}

/** What comes before what; equals by name. What is not known comes first: it may be large. */
export function orderOf(sort: Sort, report: WireReport): (a: WireHolder, b: WireHolder) => number {
  const rank = rankOf(sort, report);
  return (a, b) => compare(rank(a), rank(b)) || compare(-memoryOf(a), -memoryOf(b)) || byName(a, b);
}

function rankOf(sort: Sort, report: WireReport): (holder: WireHolder) => number {
  switch (sort) {
    case 'due': {
      const deadlines = new Map(threats(report).map(({ owner, deadline }) => [owner, Date.parse(deadline)]));
      return holder => deadlines.get(holder.owner) ?? Infinity;
    }
    case 'memory':
      return holder => -memoryOf(holder);
    case 'compute':
      return holder => -(holder.compute_percent ?? Infinity);
    case 'idle':
      return holder => -(holder.idle_seconds ?? 0);
    case 'name': {
      const names = report.holders.map(titleOf).sort((a, b) => a.localeCompare(b));
      const places = new Map(names.map((name, index) => [name, index]));
      return holder => places.get(titleOf(holder)) ?? 0;
    }
  }
}

function memoryOf(holder: WireHolder): number {
  return (holder.memory_bytes ?? Infinity) + (leftMemory(holder) ?? 0);
}

function byName(a: WireHolder, b: WireHolder): number {
  return titleOf(a).localeCompare(titleOf(b));
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

/** The device on which `holder` holds most; null: on none. */
export function mainDevice(holder: Pick<WireHolder, 'holdings'>): string | null {
  const most = holder.holdings.reduce<WireHolder['holdings'][number] | null>(
    (best, holding) =>
      best === null || (holding.memory_bytes ?? Infinity) > (best.memory_bytes ?? Infinity) ? holding : best,
    null
  );
  return most?.device ?? null;
}

/** Whether one of `texts` has all the words of `filter` in it, in any case. */
export function matches(filter: string, ...texts: (string | null)[]): boolean {
  const text = texts.join('\n').toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word));
}

/** Remembers in this browser how a person wants to see the rows. What is damaged or forbidden is forgotten. */
export class Arrangements {
  constructor(private readonly storage: Pick<Storage, 'getItem' | 'setItem'>) {}

  read(): IArrangement {
    try {
      const kept = JSON.parse(this.storage.getItem(KEY) ?? '{}') as Partial<IArrangement>;
      const sort = SORTS.find(known => known === kept.sort) ?? USUAL.sort;
      return { sort, grouped: kept.grouped === true, filter: '' };
    } catch {
      return USUAL;
    }
  }

  write({ sort, grouped }: IArrangement): void {
    try {
      this.storage.setItem(KEY, JSON.stringify({ sort, grouped }));
    } catch {
      // full or forbidden: the next page begins as usual
    }
  }
}

const KEY = 'jupyter-gpu-guard:arrangement';

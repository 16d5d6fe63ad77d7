import { devicesOf, type IDeviceCard } from '../devices';
import { english } from '../language';
import { labelOf } from '../places';
import type { WireDevice, WireReport } from '../wire';
import { device, GIB, holder, report } from './fixtures';

const cards = (devices: WireDevice[], more: Partial<WireReport> = {}): IDeviceCard[] =>
  devicesOf(report({ devices, ...more }), english.trans);

describe('what a kernel left behind', () => {
  it('counts once, although it is shown with the kernel too', () => {
    const left = holder({ owner: 'leftovers:a', kind: 'leftovers', state: 'dead' });
    const { processes } = left.holdings[0];
    const kernel = holder({ holdings: [], memory_bytes: 0, leftovers: processes });
    const [both] = cards([device({ memory_used_bytes: 8 * GIB })], { holders: [kernel, left], strangers: [] });
    const [alone] = cards([device({ memory_used_bytes: 8 * GIB })], { holders: [left], strangers: [] });
    expect(processes.length).toBeGreaterThan(0);
    expect(both.parts).toEqual(alone.parts);
  });
});

describe('MIG instances', () => {
  const gpu = device({ mig: true, compute_percent: null, compute_percent_unknown: 'not-supported' });
  const part = (uuid: string, index: number): WireDevice => device({ uuid, index, mig: true, part_of: 'GPU-a' });
  const devices = [device({ uuid: 'GPU-b', index: 1 }), part('MIG-2', 2), part('MIG-1', 1), gpu];

  it('stand under their GPU, numbered within it', () => {
    expect(cards(devices).map(({ label, nested }) => [label, nested])).toEqual([
      ['GPU 0', false],
      ['GPU 0, MIG 0', true],
      ['GPU 0, MIG 1', true],
      ['GPU 1', false]
    ]);
  });

  it('count for their GPU too', () => {
    const mine = holder({ memory_bytes: 6 * GIB });
    mine.holdings[0].device = 'MIG-1';
    const strangers = ['GPU-a', 'MIG-2'].map(uuid => ({ device: uuid, memory_bytes: GIB, processes: 1 }));
    const [whole, first] = cards(devices, { holders: [mine], strangers });
    expect(whole.parts.map(({ text }) => text)).toEqual([
      'mine 6.0 GiB',
      'others 2.0 GiB',
      'unattributed 2.0 GiB',
      'unused 60.0 GiB'
    ]);
    expect(whole.lines[0]).toBe('2 other processes, not of this server: 2.0 GiB');
    expect(first.parts.map(({ kind }) => kind)).toEqual(['mine', 'unattributed', 'unused']);
  });

  it('go by the same name in the rows', () => {
    expect(labelOf('MIG-2', report({ devices }))).toBe('GPU 0, MIG 1');
    expect(labelOf('GPU-gone', report({ devices }))).toBe('GPU-gone');
  });

  it('are shown on their own where their GPU is not', () => {
    expect(cards([device({ uuid: 'MIG-1', index: 0, mig: true, part_of: 'GPU-x' })])).toMatchObject([
      { label: 'GPU 0', nested: false, mig: true }
    ]);
  });
});

describe('a device that sleeps', () => {
  it('says so calmly, without dashes for what nobody read', () => {
    const [card] = cards([device({ state: 'suspended', compute_percent: null, memory_used_bytes: null })]);
    expect(card.lines).toContain('Asleep: nobody uses it. It is not read, since that would wake it up.');
    expect(card).toMatchObject({ trouble: null, parts: [], figures: [], free: false });
  });
});

describe('memory that nobody is listed for', () => {
  const lines = (amount: number | null): readonly string[] =>
    cards([device({ memory_unattributed_bytes: amount })])[0].lines;

  it('is told once it is more than contexts cost', () => {
    expect(lines(12 * GIB)).toEqual([
      '12.0 GiB of it is used by processes that the driver does not list. No notebook is charged for it.'
    ]);
    expect(lines(GIB / 4)).toEqual([]);
    expect(lines(null)).toEqual([]);
  });
});

describe('a device is called free', () => {
  const idle = { compute_percent: 0, memory_used_bytes: GIB, memory_unattributed_bytes: 0 };
  const free = (changes: Partial<WireDevice>, more: Partial<WireReport> = {}): boolean =>
    cards([device({ ...idle, ...changes })], { holders: [], ...more })[0].free;

  it('only with both: no compute, and its memory', () => {
    expect(free({})).toBe(true);
    expect(free({ compute_percent: 35 })).toBe(false);
    expect(free({ memory_used_bytes: 20 * GIB })).toBe(false);
  });

  it('never on what is not known', () => {
    expect(free({ compute_percent: null })).toBe(false);
    expect(free({ memory_used_bytes: null })).toBe(false);
    expect(free({ state: 'failing' })).toBe(false);
  });

  it('never while somebody is on it, or on a part of it', () => {
    expect(free({}, { holders: [holder({ memory_bytes: GIB / 8 })] })).toBe(false);
    expect(free({}, { strangers: [{ device: 'GPU-a', memory_bytes: null, processes: 1 }] })).toBe(false);
    const part = device({ ...idle, uuid: 'MIG-1', part_of: 'GPU-a' });
    const strangers = [{ device: 'MIG-1', memory_bytes: GIB / 8, processes: 1 }];
    expect(cards([device(idle), part], { holders: [], strangers }).map(card => card.free)).toEqual([false, false]);
    expect(cards([device(idle), part], { holders: [] }).map(card => card.free)).toEqual([true, true]);
  });
});

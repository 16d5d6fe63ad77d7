import { Arrangements, mainDevice, matches, orderOf, type Sort, SORTS, sortText, USUAL } from '../arrange';
import { english } from '../language';
import { viewOf } from '../view';
import { after, device, FakeStorage, GIB, holder, NOW, notice, report } from './fixtures';

const named = (name: string, changes: Partial<Parameters<typeof holder>[0]> = {}): ReturnType<typeof holder> =>
  holder({ owner: `kernel:${name}`, notebook: `${name}.ipynb`, name, ...changes });

const HOLDERS = [
  named('b', { memory_bytes: 2 * GIB, compute_percent: 90, idle_seconds: 0 }),
  named('a', { memory_bytes: 8 * GIB, compute_percent: 10, idle_seconds: 60 }),
  named('c', { memory_bytes: GIB, compute_percent: 0, idle_seconds: 900 }),
  named('d', { memory_bytes: null, compute_percent: null, idle_seconds: null })
];

const sorted = (sort: Sort): string => {
  const shown = report({ holders: HOLDERS, notices: [notice({ owner: 'kernel:c', deadline: after(60) })] });
  return [...HOLDERS]
    .sort(orderOf(sort, shown))
    .map(each => each.name)
    .join('');
};

describe('the order of rows', () => {
  it.each([
    ['due', 'cdab'],
    ['memory', 'dabc'],
    ['compute', 'dbac'],
    ['idle', 'cadb'],
    ['name', 'abcd']
  ] as [Sort, string][])('by %s, and what is not known first where it may be large', (sort, order) => {
    expect(sorted(sort)).toBe(order);
  });

  it('has words', () => {
    expect(new Set(SORTS.map(sort => sortText(sort, english.trans))).size).toBe(SORTS.length);
  });
});

describe('the filter', () => {
  it('wants each word somewhere, in any case', () => {
    expect(matches('TRAIN bert', 'work/bert/Train.ipynb', null)).toBe(true);
    expect(matches('train gpt', 'work/bert/Train.ipynb', null)).toBe(false);
    expect(matches('', 'anything')).toBe(true);
  });

  it('leaves out what does not fit, of each kind, and knows how many there are', () => {
    const view = viewOf(report({ holders: HOLDERS }), NOW, english, new Set(), { ...USUAL, filter: ' b.ip ' });
    expect(view.rows.map(row => row.title)).toEqual(['b.ipynb']);
    expect(view.countAll).toBe(4);
  });
});

describe('groups', () => {
  const part = (uuid: string, amount: number): ReturnType<typeof holder>['holdings'][number] => ({
    device: uuid,
    memory_bytes: amount * GIB,
    compute_percent: 0,
    processes: []
  });

  it('put each row once, under the device where it holds most', () => {
    const two = named('two', { holdings: [part('GPU-a', 1), part('GPU-b', 2)] });
    const lost = named('lost', { holdings: [part('GPU-z', 1)] });
    const none = named('none', { holdings: [], memory_bytes: null });
    const shown = report({
      devices: [device({ uuid: 'GPU-b', index: 1 }), device()],
      holders: [two, lost, none, named('one')]
    });
    expect(mainDevice(two)).toBe('GPU-b');
    const { groups } = viewOf(shown, NOW, english, new Set(), { ...USUAL, grouped: true });
    expect(groups?.map(group => [group.title, group.rows.map(row => row.title).join()])).toEqual([
      ['GPU 0', 'one.ipynb'],
      ['GPU 1', 'two.ipynb'],
      ['GPU-z', 'lost.ipynb'],
      ['On no device', 'none.ipynb']
    ]);
    expect(viewOf(shown, NOW, english, new Set()).groups).toBeNull();
  });
});

describe('what this browser remembers', () => {
  it('is the order and the grouping, and never the filter', () => {
    const storage = new FakeStorage();
    new Arrangements(storage).write({ sort: 'idle', grouped: true, filter: 'x' });
    expect(new Arrangements(storage).read()).toEqual({ sort: 'idle', grouped: true, filter: '' });
  });

  it('is as usual where there is nothing, or nothing of use', () => {
    const storage = new FakeStorage();
    expect(new Arrangements(storage).read()).toEqual(USUAL);
    storage.items.set('jupyter-gpu-guard:arrangement', '{');
    expect(new Arrangements(storage).read()).toEqual(USUAL);
    storage.items.set('jupyter-gpu-guard:arrangement', '{"sort": "colour", "grouped": "yes"}');
    expect(new Arrangements(storage).read()).toEqual(USUAL);
    storage.full = true;
    expect(() => {
      new Arrangements(storage).write(USUAL);
    }).not.toThrow();
  });
});

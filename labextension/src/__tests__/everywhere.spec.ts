import type { Notification } from '@jupyterlab/apputils';
import { GuardActions } from '../actions';
import { plotText, strokes } from '../dashboard/plot';
import { pointsOf } from '../dashboard/points';
import { bytes } from '../format';
import { Hush } from '../hush';
import { english } from '../language';
import { GuardModel } from '../model';
import { RunningOnGpu } from '../running';
import { badgeOf } from '../toolbar';
import type { WireReport } from '../wire';
import { device, FakeApi, FakeNotifier, GIB, holder, NOW, report } from './fixtures';

const badge = (of: WireReport, owner: string | null = 'kernel:k1'): ReturnType<typeof badgeOf> =>
  badgeOf(owner, of, NOW, english);

describe('the badge of a notebook', () => {
  it('says what its kernel holds, and in its title what comes', () => {
    const shown = badge(report({ holders: [holder()] }));
    expect(shown?.text).toBe('GPU 6.0 GiB');
    expect(shown?.title).toContain('GPU memory held by demo.ipynb: 6.0 GiB');
    expect(shown?.title).toContain('shut down in');
  });

  it('is not there while the kernel holds nothing, or is not known', () => {
    expect(badge(report({ holders: [holder({ memory_bytes: 0 })] }))).toBeNull();
    expect(badge(report({ holders: [] }))).toBeNull();
    expect(badge(report(), null)).toBeNull();
    expect(badgeOf('kernel:k1', null, NOW, english)).toBeNull();
  });

  it('shows a dash for what is not known, and why', () => {
    const hidden = holder({ memory_bytes: null, memory_bytes_unknown: 'pids-hidden' });
    const shown = badge(report({ devices: [device()], holders: [hidden] }));
    expect(shown?.text).toBe('GPU –');
    expect(shown?.title).toContain('the driver names processes that cannot be seen from here');
  });

  it('names simulated devices', () => {
    expect(badge(report({ simulated: true, holders: [holder()] }))?.title).toContain('(simulated)');
  });
});

describe('the section among what runs', () => {
  let api: FakeApi;
  let model: GuardModel;
  let running: RunningOnGpu;
  let shown: string[];

  const pass = (seconds: number): Promise<void> => jest.advanceTimersByTimeAsync(seconds * 1000);

  beforeEach(() => {
    jest.useFakeTimers({ now: NOW });
    api = new FakeApi();
    model = new GuardModel({ api });
    shown = [];
    const actions = new GuardActions(model, new FakeNotifier(), english);
    running = new RunningOnGpu(model, { actions, show: owner => shown.push(owner), refresh: () => undefined }, english);
  });

  afterEach(() => {
    model.dispose();
    jest.useRealTimers();
  });

  it('lists who holds GPU memory, the largest first, and opens the row of each', async () => {
    api.answer = report({
      holders: [
        holder({ owner: 'kernel:none', memory_bytes: 0 }),
        holder({ owner: 'kernel:small', notebook: 'a.ipynb', memory_bytes: GIB }),
        holder({ owner: 'kernel:large', notebook: 'work/b.ipynb', memory_bytes: 5 * GIB })
      ]
    });
    expect(running.running()).toEqual([]);
    await pass(0.1);
    const items = running.running();
    expect(items.map(item => [item.label(), item.detail?.()])).toEqual([
      ['b.ipynb', '5.0 GiB'],
      ['a.ipynb', '1.0 GiB']
    ]);
    expect(items[0].labelTitle?.()).toBe('work/b.ipynb\n5.0 GiB');
    items[1].open?.();
    expect(shown).toEqual(['kernel:small']);
  });

  it('tells those that are called the same apart by their path', async () => {
    api.answer = report({
      holders: ['one/a.ipynb', 'two/a.ipynb', 'two/b.ipynb'].map(notebook =>
        holder({ owner: `kernel:${notebook}`, notebook })
      )
    });
    await pass(0.1);
    expect(running.running().map(item => item.label())).toEqual(['one/a.ipynb', 'two/a.ipynb', 'b.ipynb']);
  });

  it('asks to be drawn again only for news', async () => {
    let drawn = 0;
    running.runningChanged.connect(() => {
      drawn += 1;
    });
    await pass(0.1);
    const first = drawn;
    await pass(100);
    expect(drawn).toBe(first);
    api.answer = report({ holders: [holder({ memory_bytes: 7 * GIB })] });
    await pass(31);
    expect(drawn).toBe(first + 1);
  });

  it('shuts down all that may be shut down', async () => {
    api.answer = report({
      holders: [holder({ owner: 'kernel:a', offers: ['shutdown'] }), holder({ owner: 'kernel:b', offers: [] })]
    });
    await pass(0.1);
    running.shutdownAll();
    await pass(0.1);
    expect(api.asked.filter(what => what.startsWith('shut'))).toEqual(['shutdown kernel:a']);
  });
});

describe('quiet', () => {
  it('leaves out what can be done without, and never what announces a loss', () => {
    const inner = new FakeNotifier();
    const hush = new Hush(inner, options => typeof options?.autoClose === 'number');
    const hint: Notification.IOptions<never> = { autoClose: 15000 };
    hush.quiet = true;
    expect(hush.warning('a hint', hint)).toBe('');
    hush.warning('it is shut down in 5 min', { autoClose: false });
    hush.error('could not keep it');
    expect(inner.messages).toEqual(['it is shut down in 5 min', 'could not keep it']);
    hush.quiet = false;
    hush.warning('a hint', hint);
    expect(inner.messages).toHaveLength(3);
  });
});

describe('the history', () => {
  it('puts the minutes on the clock, and what is read now at their end', () => {
    const history = { compute_percent: [null, 80, 3], memory_bytes: [GIB, GIB, 2 * GIB] };
    expect(pointsOf(history, 'compute_percent', 5, NOW)).toEqual([
      { at: NOW - 120_000, value: null },
      { at: NOW - 60_000, value: 80 },
      { at: NOW, value: 5 }
    ]);
    expect(pointsOf(null, 'memory_bytes', null, NOW)).toEqual([{ at: NOW, value: null }]);
  });

  it('draws a gap where nothing was known, and never a nought', () => {
    const values = [
      { at: 0, value: 50 },
      { at: 60_000, value: 100 },
      { at: 120_000, value: null },
      { at: 180_000, value: 0 }
    ];
    expect(strokes(values, 0, 180_000, 100)).toEqual(['0.0,30.0 100.0,0.0', '300.0,60.0 300.0,60.0']);
    expect(strokes([], 0, 1, 100)).toEqual([]);
  });

  it('draws a gap where nobody looked for long', () => {
    const values = [
      { at: 0, value: 50 },
      { at: 600_000, value: 50 }
    ];
    expect(strokes(values, 0, 600_000, 100)).toHaveLength(2);
  });

  it('says in words what the line shows', () => {
    const { trans } = english;
    const shared = { name: 'GPU 0, memory', from: 0, to: 300_000, format: bytes, trans };
    const values = [
      { at: 0, value: 2 * GIB },
      { at: 300_000, value: GIB }
    ];
    expect(plotText({ ...shared, values })).toBe('GPU 0, memory: now 1.0 GiB, highest 2.0 GiB in the last 5 min');
    expect(plotText({ ...shared, values: [...values, { at: 300_000, value: null }] })).toContain('now –');
    expect(plotText({ ...shared, values: [{ at: 0, value: null }] })).toBe('GPU 0, memory: not known');
  });
});

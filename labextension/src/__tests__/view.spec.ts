import { english } from '../language';
import { keepChoices } from '../rows';
import { summaryOf, viewOf } from '../view';
import type { WireHolder, WireOutcome, WireReport } from '../wire';
import { after, device, GIB, holder, NOW, notice, outcome, report, verdict } from './fixtures';

const ALL = new Set(['kernel:k1']);
const show = (changes: Partial<WireReport>): ReturnType<typeof viewOf> => viewOf(report(changes), NOW, english, ALL);
const state = (changes: Partial<WireHolder>, more: Partial<WireReport> = {}): string =>
  show({ holders: [holder(changes)], ...more }).rows[0].state;

describe('the state of a row', () => {
  it('says how long it was idle, what comes, when, and by which rule', () => {
    expect(state({})).toBe('idle 1 h 20 min, shut down in 14 min by rule default');
  });

  it('says "would be" where the guard only observes', () => {
    expect(state({}, { mode: 'observe' })).toBe('idle 1 h 20 min, would be shut down in 14 min by rule default');
  });

  it('never counts below zero when the deadline is past', () => {
    expect(state({ verdict: verdict({ deadline: after(-5) }) })).toBe(
      'idle 1 h 20 min, shut down at any moment by rule default'
    );
  });

  it('names the warning that comes first', () => {
    expect(state({ idle_seconds: 1200, verdict: verdict({ next_action: 'warn', deadline: after(2400) }) })).toBe(
      'idle 20 min, warning in 40 min'
    );
  });

  it('shows until when it is kept, whatever the verdict says', () => {
    expect(state({ lease: { until: after(7200), reason: '' } })).toMatch(/^idle 1 h 20 min, kept until \d\d:\d\d$/);
  });

  it('tells a cell that runs from one that runs without compute', () => {
    const reasons = [{ code: 'computing', text: '', facts: {} }];
    const none = verdict({ next_action: null, deadline: null, reasons });
    expect(state({ state: 'executing', idle_seconds: 0, verdict: none })).toBe('running');
    expect(state({ state: 'executing', verdict: verdict({ next_action: null, deadline: null }) })).toBe(
      'running, no compute for 1 h 20 min'
    );
  });

  it('does not call idle what is not known', () => {
    const none = verdict({ next_action: null, deadline: null, reasons: [] });
    expect(state({ idle_seconds: null, compute_percent: null, verdict: none })).toBe('compute not known');
  });

  it('says what an earlier kernel has left behind', () => {
    const leftovers = [
      { pid: 9, started_at: after(-9), device: 'GPU-a', memory_bytes: 3 * GIB, compute_percent: 0 },
      { pid: 10, started_at: after(-9), device: 'GPU-a', memory_bytes: GIB, compute_percent: 0 }
    ];
    const none = verdict({ next_action: null, deadline: null });
    const gone = { state: 'dead', memory_bytes: 0, verdict: none } as const;
    const noted = (changes: Partial<WireHolder>): string | undefined =>
      show({ holders: [holder({ ...gone, leftovers, ...changes })] }).rows[0].notes.find(
        note => note.key === 'leftovers'
      )?.text;
    expect(noted({})).toBe('2 processes left behind by an earlier run hold 4.0 GiB.');
    expect(noted({ died: true })).toBe('The kernel died; 2 processes it had started hold 4.0 GiB.');
    expect(noted({ memory_bytes: GIB, leftovers: [] })).toBeUndefined();
    const inferred = leftovers.map(process => ({ ...process, evidence: 'estimate' as const }));
    expect(noted({ leftovers: inferred })).toBe('2 processes left behind by an earlier run hold ≈ 4.0 GiB.');
    expect(noted({ leftovers: [{ ...leftovers[0], memory_bytes: null }] })).toBe(
      '1 process left behind by an earlier run holds GPU memory (how much is not known).'
    );
    const twoDevices = [leftovers[0], { ...leftovers[0], device: 'GPU-b' }];
    expect(noted({ leftovers: twoDevices })).toBe('1 process left behind by an earlier run holds 6.0 GiB.');
  });
});

describe('a row', () => {
  it('shows a dash with its reason for a reading that is not known, and says so in words', () => {
    const [row] = show({
      holders: [
        holder({
          compute_percent: null,
          compute_percent_unknown: 'not-supported',
          verdict: verdict({ reasons: [] })
        })
      ]
    }).rows;
    expect(row.compute).toEqual({ text: '–', title: 'Not known: the device or its driver does not offer this.' });
    expect(row.why?.unknowns).toEqual(['Compute: Not known: the device or its driver does not offer this.']);
    expect(row.tone).toBe('unknown');
  });

  it('does not repeat in the argument what a reason already says', () => {
    const reasons = [{ code: 'unknown-reading', text: '', facts: { what: 'compute', why: 'not-read', detail: '' } }];
    const [row] = show({
      holders: [holder({ compute_percent: null, protections: ['unknown'], verdict: verdict({ reasons }) })]
    }).rows;
    expect(row.why?.reasons[0]).toContain('compute is not known');
    expect(row.why?.unknowns).toEqual([]);
    expect(row.why?.protections).toEqual([]);
  });

  it('works out its argument only while it is unfolded', () => {
    expect(viewOf(report(), NOW, english, new Set()).rows[0].why).toBeNull();
  });

  it('shows how much of each device it holds, and says it only where there are several', () => {
    expect(show({}).rows[0].places).toMatchObject([{ text: '', share: 6 / 80, shareText: '6.0 GiB of 80.0 GiB' }]);
    expect(show({ devices: [] }).rows[0].places[0].share).toBeNull();
    const two = [device(), device({ uuid: 'GPU-b', index: 1 })];
    const part = (uuid: string, share: number): WireHolder['holdings'][number] => ({
      device: uuid,
      memory_bytes: share * GIB,
      compute_percent: share,
      processes: []
    });
    const places = show({ devices: two, holders: [holder({ holdings: [part('GPU-a', 4), part('GPU-b', 2)] })] }).rows[0]
      .places;
    expect(places.map(place => place.text)).toEqual(['GPU 0: 4.0 GiB, 4 %', 'GPU 1: 2.0 GiB, 2 %']);
  });

  it('says what milder step comes first, and when it would be lost', () => {
    const state = (changes: Partial<WireHolder['verdict']>, more: Partial<WireReport> = {}): string =>
      show({ holders: [holder({ verdict: verdict(changes) })], ...more }).rows[0].state;
    const soon = { next_action: 'release' as const, deadline: after(300) };
    expect(state(soon)).toBe('idle 1 h 20 min, gives back what it caches in 5 min by rule default');
    expect(state(soon, { mode: 'observe' })).toContain('would give back what it caches in 5 min by rule default');
    expect(state(soon, { notices: [notice()] })).toMatch(/in 5 min by rule default, shut down at \d\d:\d\d$/);
    expect(state({ next_action: 'park', deadline: after(300) })).toContain('parked in 5 min by rule default');
    expect(state({ action: 'park' })).toContain('being parked by rule default');
    expect(state({ action: 'release' }, { mode: 'observe' })).toContain('would give back what it caches now');
  });

  it('says that nobody could be told of it', () => {
    const reasons = [{ code: 'undelivered', text: '', facts: { wait_seconds: null } }];
    const untold = holder({ verdict: verdict({ deadline: null, reasons }) });
    expect(show({ holders: [untold] }).rows[0].state).toBe('idle 1 h 20 min, nobody could be told of it so far');
  });

  it('says for a while what came of a release', () => {
    const notes = (changes: Partial<WireOutcome>): string[] =>
      show({ outcomes: [outcome({ action: 'release', freed_bytes: 3.1 * GIB, detail: '', ...changes })] })
        .rows[0].notes.filter(note => note.key === 'latest')
        .map(note => note.text);
    expect(notes({})[0]).toMatch(/^\d\d:\d\d: gave back 3\.1 GiB\.$/);
    expect(notes({ freed_bytes: 0 })[0]).toContain('had nothing to give back');
    expect(notes({ freed_bytes: null })[0]).toContain('how much is not known');
    expect(notes({ at: after(-3600) })).toEqual([]);
    expect(notes({ owner: 'kernel:other' })).toEqual([]);
    expect(notes({ result: 'unsuited' })).toEqual([]);
    expect(notes({ result: 'unsuited', by: 'anna', detail: 'A pool holds it.' })[0]).toContain('A pool holds it.');
  });

  it('is alarming only when something is about to be lost', () => {
    const tone = (changes: Partial<WireHolder>, more: Partial<WireReport> = {}): string =>
      show({ holders: [holder(changes)], ...more }).rows[0].tone;
    expect(tone({})).toBe('idle');
    expect(tone({}, { notices: [notice()] })).toBe('warned');
    expect(tone({}, { notices: [notice({ deadline: null, next_action: null })] })).toBe('idle');
    expect(tone({ verdict: verdict({ action: 'shutdown' }) })).toBe('warned');
    expect(tone({ verdict: verdict({ action: 'shutdown' }) }, { mode: 'observe' })).toBe('idle');
    expect(tone({ lease: { until: after(60), reason: '' } })).toBe('kept');
  });
});

describe('a row on which a step is under way', () => {
  const acting = verdict({ reasons: [{ code: 'acting', text: '', facts: {} }] });
  const ending = verdict({ action: 'shutdown' });

  it.each([
    ['a step is under way', acting, 'enforce', true],
    ['a step is under way, as it observes', acting, 'observe', true],
    ['it is being shut down', ending, 'enforce', true],
    ['it would be shut down', ending, 'observe', false],
    ['it has time left', verdict(), 'enforce', false]
  ] as const)('offers nothing once it is too late: %s', (_, judged, mode, late) => {
    const [row] = show({ mode, holders: [holder({ verdict: judged })] }).rows;
    expect(row.ending).toBe(late);
    expect(row.keepChoices.length === 0).toBe(late);
  });
});

describe('the rows', () => {
  const names = (changes: Partial<WireReport>): string[] => show(changes).rows.map(row => row.title);
  const named = (name: string, changes: Partial<WireHolder> = {}): WireHolder =>
    holder({ owner: `kernel:${name}`, name, notebook: null, ...changes });

  it('begin with what is lost first, then go by memory, then by name', () => {
    const holders = [
      named('small', { memory_bytes: GIB }),
      named('b', { memory_bytes: 9 * GIB }),
      named('a', { memory_bytes: 9 * GIB }),
      named('later', { memory_bytes: GIB }),
      named('soon', { memory_bytes: GIB })
    ];
    const notices = [
      notice({ id: '1', owner: 'kernel:later', deadline: after(900) }),
      notice({ id: '2', owner: 'kernel:soon', deadline: after(60) })
    ];
    expect(names({ holders, notices })).toEqual(['soon', 'later', 'a', 'b', 'small']);
  });

  it('fold kernels without GPU memory into one line', () => {
    const view = show({ holders: [named('a'), named('c', { memory_bytes: 0 }), named('b', { memory_bytes: 0 })] });
    expect(view.rows.map(row => row.title)).toEqual(['a']);
    expect(view.quiet).toEqual({ text: '2 kernels without GPU memory', names: ['b', 'c'] });
  });

  it('show what may hold memory, but is not known', () => {
    expect(names({ holders: [named('a', { memory_bytes: null, holdings: [] })] })).toEqual(['a']);
  });

  it('do not list every kernel as unknown on a machine where no device was seen', () => {
    const view = show({ devices: [], holders: [named('a', { memory_bytes: null, holdings: [] })] });
    expect(view.rows).toEqual([]);
    expect(view.quiet?.text).toBe('1 kernel, GPU memory not known');
  });
});

describe('keepChoices', () => {
  const labels = (longest: number): string[] => keepChoices(longest, english.trans).map(choice => choice.label);

  it('never offers more than the longest', () => {
    expect(labels(8 * 3600)).toEqual(['30 min', '1 h', '2 h', '4 h', '8 h']);
    expect(labels(6 * 3600)).toEqual(['30 min', '1 h', '2 h', '4 h', '6 h']);
    expect(labels(600)).toEqual(['10 min']);
    expect(labels(0)).toEqual([]);
    expect(labels(24 * 3600)).toEqual(['30 min', '1 h', '2 h', '4 h', '8 h']);
  });

  it('offers only what is longer than the promise that runs', () => {
    const kept = (seconds: number): string[] =>
      show({ holders: [holder({ lease: { until: after(seconds), reason: '' } })] }).rows[0].keepChoices.map(
        choice => choice.label
      );
    expect(kept(2 * 3600 - 30)).toEqual(['4 h', '8 h']);
    expect(kept(2 * 3600 - 90)).toEqual(['2 h', '4 h', '8 h']);
    expect(kept(8 * 3600)).toEqual([]);
    expect(kept(-1)).toEqual(['30 min', '1 h', '2 h', '4 h', '8 h']);
  });
});

describe('a device card', () => {
  it('splits the bar into mine, others, unattributed and free', () => {
    const strangers = [{ device: 'GPU-a', memory_bytes: 12 * GIB, processes: 3 }];
    const [card] = show({ strangers }).devices;
    expect(card.parts).toEqual([
      { kind: 'mine', text: 'mine 6.0 GiB', share: 0.075 },
      { kind: 'others', text: 'others 12.0 GiB', share: 0.15 },
      { kind: 'unattributed', text: 'unattributed 2.0 GiB', share: 0.025 },
      { kind: 'unused', text: 'unused 60.0 GiB', share: 0.75 }
    ]);
    expect(card.lines).toEqual([
      '3 other processes, not of this server: 12.0 GiB',
      '2.0 GiB of it is used by processes that the driver does not list. No notebook is charged for it.'
    ]);
  });

  it('names a part that is not known, and gives it no room', () => {
    const [card] = show({
      devices: [device({ memory_unattributed_bytes: null, memory_unattributed_bytes_unknown: 'pids-hidden' })]
    }).devices;
    expect(card.parts.find(part => part.kind === 'unattributed')).toEqual({
      kind: 'unattributed',
      text: 'unattributed –',
      share: 0
    });
  });

  it('does not add up mine when one of the parts is not known', () => {
    const unknown = holder({ owner: 'kernel:k2' });
    unknown.holdings[0].memory_bytes = null;
    const [card] = show({ holders: [holder(), unknown] }).devices;
    expect(card.parts[0].text).toBe('mine –');
  });

  it('says that a device is lost', () => {
    expect(show({ devices: [device({ state: 'lost' })] }).devices[0].trouble).toContain('lost');
  });

  it('shows the reason for each figure that is not known', () => {
    const [card] = show({ devices: [device({ power_watts: null, power_watts_unknown: 'no-permission' })] }).devices;
    expect(card.figures[2].reading).toEqual({
      text: '–',
      title: 'Not known: the driver does not let this user see it.'
    });
  });
});

describe('the panel', () => {
  it('tells of gaps with their sentence and since when', () => {
    const [gap] = show({ gaps: [{ source: 'nvml', why: 'No driver.', since: after(-60) }] }).gaps;
    expect(gap.text).toMatch(/^No driver\. \(since \d\d:\d\d\)$/);
  });

  it('says when the guard itself has stopped looking', () => {
    expect(show({ taken_at: after(-20) }).late).toBeNull();
    expect(show({ taken_at: after(-300) }).late).toBe('The newest reading is 5 min old.');
  });

  it('lists shutdowns and failures, the newest first, and no warnings that were given', () => {
    const outcomes = [
      outcome({ id: '1', at: after(-300) }),
      outcome({ id: '2', action: 'warn' }),
      outcome({ id: '3', result: 'failed', freed_bytes: null })
    ];
    const { past } = show({ outcomes });
    expect(past.map(entry => entry.id)).toEqual(['3', '1']);
    expect(past[0].failed).toBe(true);
    expect(past[1].text).toMatch(/^\d\d:\d\d · demo.ipynb · shut down · 6.0 GiB freed$/);
    expect(past[1].detail).toMatch(/^Ended by Jupyter\. .*Rule: default\.$/);
    expect(show({ outcomes: [outcome({ by: 'anna' })] }).past[0].detail).not.toContain('Rule:');
  });

  it('speaks of freed memory only where there was some to free', () => {
    const ended = outcome({ owner: 'terminal:1', name: 'Terminal 1', notebook: null, freed_bytes: 0 });
    expect(show({ outcomes: [ended] }).past[0].text).toMatch(/^\d\d:\d\d · Terminal 1 · shut down$/);
    expect(show({ outcomes: [{ ...ended, freed_bytes: GIB }] }).past[0].text).toContain('1.0 GiB freed');
    expect(show({ outcomes: [outcome({ freed_bytes: 0 })] }).past[0].text).toContain('0 MiB freed');
  });

  it('has an alarm whose words do not change with each poll', () => {
    const notices = [notice()];
    const now = viewOf(report({ notices }), NOW, english, ALL).alarms;
    expect(now).toHaveLength(1);
    expect(viewOf(report({ notices }), NOW + 5000, english, ALL).alarms).toEqual(now);
  });
});

describe('the status bar', () => {
  it('shows what my notebooks hold in all', () => {
    const holders = [holder(), holder({ owner: 'kernel:k2', memory_bytes: 2 * GIB })];
    expect(summaryOf(report({ holders }), NOW, english).text).toBe('GPU 8.0 GiB');
  });

  it('shows the nearest deadline, but not a hint', () => {
    const notices = [notice({ id: '1', deadline: after(900) }), notice({ id: '2', deadline: after(300) })];
    expect(summaryOf(report({ notices }), NOW, english).text).toBe('GPU 6.0 GiB · 5 min left');
    const hints = [notice({ deadline: null, next_action: null })];
    expect(summaryOf(report({ notices: hints }), NOW, english).text).toBe('GPU 6.0 GiB');
  });

  it('says that the devices are simulated', () => {
    const { text, title } = summaryOf(report({ simulated: true }), NOW, english);
    expect(text).toBe('GPU 6.0 GiB (simulated)');
    expect(title).toContain('6.0 GiB (simulated)');
    const warned = report({ simulated: true, notices: [notice({ deadline: after(300) })] });
    expect(summaryOf(warned, NOW, english).text).toBe('GPU 6.0 GiB · 5 min left (simulated)');
  });

  it('never turns what is not known into 0', () => {
    const holders = [holder({ memory_bytes: null, holdings: [] })];
    expect(summaryOf(report({ holders }), NOW, english).text).toBe('GPU –');
  });
});

import { english } from '../language';
import { noticeText } from '../notices';
import type { IRow } from '../rows';
import { viewOf } from '../view';
import type { WireHolder } from '../wire';
import { board, device, GIB, holder, NOW, notice, report, terminal, verdict } from './fixtures';

const view = (...holders: WireHolder[]): ReturnType<typeof viewOf> =>
  viewOf(report({ holders }), NOW, english, new Set(holders.map(found => found.owner)));
const shown = (found: WireHolder): IRow => {
  const { rows, boards, terminals } = view(found);
  return [...rows, ...boards, ...terminals][0];
};
const noted = (found: WireHolder, key: string): string | undefined =>
  shown(found).notes.find(note => note.key === key)?.text;

describe('the sections', () => {
  it('keep notebooks, TensorBoards and terminals apart, each with or without GPU memory', () => {
    const { rows, boards, terminals, quiet } = view(holder(), board(), terminal());
    expect(rows.map(row => row.owner)).toEqual(['kernel:k1']);
    expect(boards.map(row => row.owner)).toEqual(['tensorboard:6006']);
    expect(terminals.map(row => row.owner)).toEqual(['terminal:1']);
    expect(quiet).toBeNull();
  });
});

describe('the state of a kernel, in words', () => {
  const state = (changes: Partial<WireHolder>): string =>
    shown(holder({ verdict: verdict({ next_action: null, deadline: null, reasons: [] }), ...changes })).state;

  it.each([
    ['waiting-for-input', 'waiting for input, no compute for 1 h 20 min'],
    ['at-breakpoint', 'halted at a breakpoint, no compute for 1 h 20 min'],
    ['serving', 'serving: somebody came to its port'],
    ['input-bound', 'input-bound: CPU or disk work, no GPU compute']
  ] as const)('%s', (found, text) => {
    expect(state({ state: found })).toBe(text);
  });

  it('says that it computes where it does, whatever else it is doing', () => {
    const reasons = [{ code: 'computing', text: '', facts: {} }];
    const computing = verdict({ next_action: null, deadline: null, reasons });
    expect(state({ state: 'input-bound', verdict: computing })).toBe('computing');
    expect(state({ state: 'waiting-for-input', verdict: computing })).toBe('waiting for input');
  });

  it('is at work, and not idle, while it serves or waits for the disk', () => {
    expect(shown(holder({ state: 'serving' })).tone).toBe('busy');
    expect(shown(holder({ state: 'input-bound' })).tone).toBe('busy');
    expect(shown(holder({ state: 'waiting-for-input' })).tone).toBe('idle');
  });
});

describe('a kernel that is gone and has left something behind', () => {
  const leftovers = [9, 10].map(pid => ({
    pid,
    started_at: '2026-11-30T10:00:00Z',
    device: 'GPU-a',
    memory_bytes: 2 * GIB,
    compute_percent: 0
  }));
  const gone = holder({ state: 'dead', memory_bytes: 0, leftovers, died: true });

  it('stays, tells its pids, and offers no promise for what is no more', () => {
    const row = shown(gone);
    expect(row.keepChoices).toEqual([]);
    expect(row.why?.leftovers[0]).toMatch(/^Process 9 on GPU 0: 2\.0 GiB, since /);
    expect(row.why?.leftovers[2]).toContain('If nobody needs them: kill 9 10');
  });

  it('is told once, in the row', () => {
    const reasons = [{ code: 'left-behind', text: '', facts: { processes: 2, memory_bytes: 4 * GIB, died: 1 } }];
    const row = shown({ ...gone, verdict: verdict({ reasons }) });
    expect(row.notes[0].text).toBe('The kernel died; 2 processes it had started hold 4.0 GiB.');
    expect(row.why?.reasons).toEqual(['Rule: default.']);
  });

  it('stands where its memory puts it', () => {
    const small = holder({ owner: 'kernel:k2', notebook: 'a.ipynb', memory_bytes: GIB });
    expect(view(small, gone).rows.map(row => row.owner)).toEqual(['kernel:k1', 'kernel:k2']);
  });
});

describe('a TensorBoard', () => {
  it('goes by its name, and shows its logs, port, age and starter', () => {
    const row = shown(board());
    expect(row.title).toBe('TensorBoard exp1');
    expect(row.path).toBeNull();
    expect(row.folder).toBe('/home/anna/runs/exp1');
    expect(row.facts).toEqual(['port 6006 · runs for 3 h', 'started by train.ipynb']);
    expect([row.memory, row.compute]).toEqual([null, null]);
  });

  it('does not repeat its logs, and leaves out what is not known', () => {
    const bare = board(
      { name: 'TensorBoard /home/anna/runs/exp1', started_at: null },
      { port: null, started_by_name: null, inside: true }
    );
    expect(shown(bare).folder).toBeNull();
    expect(shown(bare).facts).toEqual(['runs inside the Jupyter server']);
  });

  it.each([
    [2, 0, 'being looked at (2 connections)'],
    [0, 300, 'nobody has looked at it for 5 min'],
    [0, null, 'nobody looks at it now'],
    [null, null, 'not known whether anybody looks at it']
  ])('watched by %p, unwatched for %p: %s', (watchers, unwatched, text) => {
    expect(shown(board({}, { watchers, unwatched_seconds: unwatched })).state).toBe(text);
  });

  it('says when it will be shut down', () => {
    expect(shown(board({ verdict: verdict({ rule: 'boards' }) })).state).toBe(
      'nobody has looked at it for 5 min, shut down in 14 min by rule boards'
    );
  });

  it('is marked where another one shows the same logs', () => {
    expect(noted(board(), 'duplicate')).toBeUndefined();
    expect(noted(board({}, { duplicate: true }), 'duplicate')).toContain('Another TensorBoard shows the same logs');
  });

  it('shows GPU memory it holds, with the way to start it without', () => {
    const greedy = board({ memory_bytes: 11 * GIB });
    expect(shown(greedy).memory?.text).toBe('11.0 GiB');
    expect(noted(greedy, 'needs-no-gpu')).toContain('CUDA_VISIBLE_DEVICES=');
    expect(noted(board(), 'needs-no-gpu')).toBeUndefined();
    expect(noted(holder(), 'needs-no-gpu')).toBeUndefined();
  });

  it('is warned about in words of its own, under its own name', () => {
    const reasons = [{ code: 'unwatched', text: '', facts: {} }];
    const about = { owner: 'tensorboard:6006', name: 'TensorBoard exp1', memory_bytes: 0, reasons };
    expect(noticeText(notice(about), NOW, english)).toMatch(
      /^Nobody looks at TensorBoard exp1\. It is shut down in 14 min, at \d\d:\d\d\.$/
    );
  });
});

describe('a terminal', () => {
  it('says how much would end with it', () => {
    expect(shown(terminal()).facts).toEqual(['2 processes run in it besides its shell.']);
    expect(shown(terminal({ tree_size: 1 })).facts).toEqual(['Nothing but its shell runs in it.']);
    expect(shown(terminal({ tree_size: null })).facts).toEqual([]);
  });

  it('shows figures and a state only where it holds GPU memory', () => {
    expect(shown(terminal())).toMatchObject({ memory: null, compute: null, state: '' });
    expect(shown(terminal({ memory_bytes: GIB }))).toMatchObject({
      memory: { text: '1.0 GiB' },
      state: 'idle 1 h 20 min'
    });
    expect(shown(terminal({ memory_bytes: null, memory_bytes_unknown: 'not-read' })).memory?.text).toBe('–');
  });
});

describe('what is lost', () => {
  it('is said for each kind', () => {
    expect(shown(holder()).losses[0]).toContain('All variables');
    expect(shown(terminal()).losses.join(' ')).toBe(
      'Its shell, the program in it, and what holds a GPU are ended. 2 processes run in it besides its shell.'
    );
    expect(shown(board()).losses.join(' ')).toBe(
      'Its page on port 6006 stops working. The logs it shows stay. Logs: /home/anna/runs/exp1'
    );
    expect(shown(board({}, { port: null })).losses[0]).toBe('Its page stops working. The logs it shows stay.');
    expect(shown(holder({ tree_size: 4 })).losses[1]).toBe('3 processes that it has started may end with it.');
    expect(shown(holder({ tree_size: 1 })).losses).toHaveLength(1);
  });
});

describe('a last cell that failed', () => {
  it('is said in the row, with the remedies under Why?', () => {
    const reasons = [{ code: 'last-cell-failed', text: '', facts: {} }];
    const failed = holder({ failed: true, verdict: verdict({ reasons }) });
    expect(noted(failed, 'failed')).toContain('Its last cell failed');
    expect(shown(failed).why?.reasons[0]).toContain('1. Run ');
    expect(noted(holder({ failed: true }), 'failed')).toBeUndefined();
  });
});

describe('what the figures rest on', () => {
  const figures = (found: WireHolder): string => shown(found).why?.figures.join('\n') ?? '';

  it('is what the processes reserve, and how long ago they computed', () => {
    expect(figures(holder())).toContain('Memory is what its processes reserve.');
    expect(figures(holder())).toContain('Last compute: at least 1 h 20 min ago.');
    expect(figures(holder({ idle_seconds: null }))).not.toContain('Last compute');
    expect(figures(terminal())).toBe('');
  });

  it('says of a pool, and of nothing smaller, that only the end of the process gives it back', () => {
    const text = 'then only ending the process gives it back';
    expect(figures(holder({ memory_bytes: 70 * GIB }))).toContain(text);
    expect(figures(holder({ memory_bytes: 20 * GIB }))).not.toContain(text);
  });

  it('names the device whose compute stands in, unless a reason does', () => {
    const alone = holder();
    alone.holdings[0].evidence = 'sole-owner';
    expect(figures(alone)).toContain('Compute on GPU 0 is that of the whole device, on which it is alone.');
    const reasons = [{ code: 'sole-owner', text: '', facts: {} }];
    expect(figures({ ...alone, verdict: verdict({ reasons }) })).not.toContain('on which it is alone');
  });

  it('tells processes that draw, and those of the multi-process service, from the others', () => {
    const mixed = holder();
    const [process] = mixed.holdings[0].processes;
    mixed.holdings[0].processes = ['C', 'C+G', 'G', 'M+C'].map(type => ({ ...process, type }));
    expect(shown(mixed).why?.processes.map(line => /on (.*):.*,/.exec(line)?.[1].replace(/:.*/, ''))).toEqual([
      'GPU 0',
      'GPU 0',
      'GPU 0 (graphics)',
      'GPU 0 (through the multi-process service)'
    ]);
  });
});

describe('an estimate', () => {
  const inferred = holder({ estimated: true });
  inferred.holdings[0].evidence = 'estimate';
  inferred.holdings[0].processes[0].evidence = 'estimate';

  it('is marked wherever it is shown, with the reason', () => {
    const devices = [device(), device({ uuid: 'GPU-b', index: 1 })];
    inferred.holdings = [inferred.holdings[0], { ...inferred.holdings[0], device: 'GPU-b' }];
    const seen = viewOf(report({ devices, holders: [inferred] }), NOW, english, new Set(['kernel:k1']));
    const [row] = seen.rows;
    expect(row.memory?.text).toBe('≈ 6.0 GiB');
    expect(row.memory?.title).toMatch(/^An estimate: /);
    expect(row.compute?.text).toBe('≈ 0 %');
    expect(row.places.map(place => place.text)).toEqual(['GPU 0: ≈ 6.0 GiB, ≈ 0 %', 'GPU 1: ≈ 6.0 GiB, ≈ 0 %']);
    expect(row.places[0].title).toMatch(/^An estimate: /);
    expect(row.why?.processes[0]).toContain('on GPU 0: ≈ 6.0 GiB');
    expect(row.why?.reasons[0]).toContain('It held ≈ 6.0 GiB with');
    expect(row.why?.figures.join(' ')).toContain('An estimate: ');
    expect(seen.devices[0].parts[0].text).toBe('mine ≈ 6.0 GiB');
    expect(noticeText(notice(), NOW, english, { estimated: true })).toContain('holds ≈ 6.0 GiB GPU memory');
  });

  it('does not make a number of what is not known', () => {
    const [row] = view(holder({ estimated: true, memory_bytes: null, memory_bytes_unknown: 'shared' })).rows;
    expect(row.memory).toEqual({
      text: '–',
      title: 'Not known: it is measured for several together, and cannot be divided.'
    });
  });

  it('leaves what is seen unmarked', () => {
    expect(JSON.stringify(view(holder(), board(), terminal()))).not.toContain('≈');
  });
});

import { act, fireEvent, screen, within } from '@testing-library/react';
import { Widget } from '@lumino/widgets';
import { GuardActions } from '../actions';
import { Fault } from '../api';
import { english } from '../language';
import { GuardModel } from '../model';
import { GuardPanel } from '../panel';
import type { WireHolder, WireReport } from '../wire';
import {
  after,
  board,
  device,
  FakeApi,
  FakeNotifier,
  FakeStorage,
  GIB,
  holder,
  NOW,
  notice,
  outcome,
  report,
  terminal,
  verdict
} from './fixtures';

const ENTER = 13;
const ARROW_DOWN = 40;

let api: FakeApi;
let model: GuardModel;
let notifier: FakeNotifier;
let panel: GuardPanel;
let opened: string[];
let storage: FakeStorage;

const pass = (milliseconds: number): Promise<void> =>
  act(async () => {
    await jest.advanceTimersByTimeAsync(milliseconds);
  });

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  api = new FakeApi();
  model = new GuardModel({ api });
  notifier = new FakeNotifier();
  opened = [];
  const open = (path: string): Promise<void> => {
    opened.push(path);
    return Promise.resolve();
  };
  storage = new FakeStorage();
  panel = new GuardPanel(model, new GuardActions(model, notifier, english), open, english, {
    storage,
    history: () => opened.push('history')
  });
});

afterEach(async () => {
  await act(async () => {
    panel.dispose();
    model.dispose();
    await jest.advanceTimersByTimeAsync(100);
  });
  document.body.textContent = '';
  jest.useRealTimers();
});

async function show(answer: WireReport | Fault): Promise<HTMLElement> {
  api.answer = answer;
  act(() => {
    Widget.attach(panel, document.body);
  });
  await pass(100);
  return screen.getByTestId('gpu-guard-panel');
}

async function click(name: string): Promise<void> {
  fireEvent.click(screen.getByRole('button', { name }));
  await pass(100);
}

/** JupyterLab's dialog element is never `open`, so that it has no role for the test. */
const question = (): HTMLElement => document.querySelector('.jp-Dialog') as HTMLElement;

describe('the rows', () => {
  it('name the notebook, its memory, its compute and what comes', async () => {
    await show(report());
    const row = screen.getByRole('listitem', { name: 'work/demo.ipynb' });
    expect(row.dataset.testid).toBe('gpu-guard-row');
    expect(row.textContent).toContain('6.0 GiB');
    expect(row.textContent).toContain('idle 1 h 20 min, shut down in 14 min by rule default');
  });

  it('offer nothing once it is too late', async () => {
    await show(report({ holders: [holder({ verdict: verdict({ action: 'shutdown' }) })] }));
    for (const name of ['Keep demo.ipynb', 'Shut down demo.ipynb']) {
      expect(screen.getByRole<HTMLButtonElement>('button', { name }).disabled).toBe(true);
    }
  });

  it('open the notebook', async () => {
    await show(report());
    await click('demo.ipynb');
    expect(opened).toEqual(['work/demo.ipynb']);
  });

  it('ask for how long to keep, and keep', async () => {
    await show(report());
    await click('Keep demo.ipynb');
    const items = [...document.querySelectorAll('.lm-Menu-item')];
    expect(items.map(item => item.textContent)).toEqual([
      'Keep demo.ipynb for 30 min',
      'Keep demo.ipynb for 1 h',
      'Keep demo.ipynb for 2 h',
      'Keep demo.ipynb for 4 h',
      'Keep demo.ipynb for 8 h'
    ]);
    const menu = document.querySelector('.lm-Menu') as HTMLElement;
    for (const keyCode of [ARROW_DOWN, ARROW_DOWN, ENTER]) {
      fireEvent.keyDown(menu, { keyCode });
    }
    await pass(100);
    expect(api.asked).toContain('keep kernel:k1 3600');
    expect(document.querySelector('.lm-Menu')).toBeNull();
  });

  const names = (): (string | undefined)[] =>
    screen.getAllByTestId('gpu-guard-row').map(row => row.getAttribute('aria-label') ?? undefined);
  const [first, second, third] = ['a.ipynb', 'b.ipynb', 'c.ipynb'].map((name, index) =>
    holder({ owner: `kernel:${name}`, notebook: name, name, memory_bytes: (9 - index) * GIB })
  );
  const due = (owner: string): WireReport['notices'] => [notice({ owner, deadline: after(60) })];

  it('stay where they are while the pointer is over them', async () => {
    await show(report({ holders: [first, second], notices: [] }));
    fireEvent.pointerOver(screen.getByRole('button', { name: 'Keep a.ipynb' }));
    api.answer = report({ holders: [third, first, second], notices: due('kernel:b.ipynb') });
    await pass(6000);
    expect(names()).toEqual(['a.ipynb', 'b.ipynb', 'c.ipynb']);
    fireEvent.pointerOver(screen.getByRole('combobox'));
    await pass(100);
    expect(names()).toEqual(['b.ipynb', 'a.ipynb', 'c.ipynb']);
  });

  it('stay where they are while a menu is open', async () => {
    await show(report({ holders: [first, second], notices: [] }));
    await click('Keep a.ipynb');
    api.answer = report({ holders: [first, second], notices: due('kernel:b.ipynb') });
    await pass(6000);
    expect(names()).toEqual(['a.ipynb', 'b.ipynb']);
    fireEvent.keyDown(document.querySelector('.lm-Menu') as HTMLElement, { keyCode: 27 });
    await pass(100);
    expect(names()).toEqual(['b.ipynb', 'a.ipynb']);
  });

  it('take another order at once where a person asks for it', async () => {
    await show(report({ holders: [first, second], notices: [] }));
    fireEvent.pointerOver(screen.getByRole('button', { name: 'Keep a.ipynb' }));
    api.answer = report({ holders: [first, { ...second, memory_bytes: 20 * GIB }], notices: [] });
    await pass(6000);
    expect(names()).toEqual(['a.ipynb', 'b.ipynb']);
    fireEvent.change(screen.getByRole('combobox'), { target: { value: 'memory' } });
    await pass(100);
    expect(names()).toEqual(['b.ipynb', 'a.ipynb']);
  });

  it('ask what for where the rule wants to know, and keep nothing without an answer', async () => {
    await show(report({ holders: [holder({ keep_needs_reason: true })] }));
    const choose = async (): Promise<HTMLInputElement> => {
      await click('Keep demo.ipynb');
      const menu = document.querySelector('.lm-Menu') as HTMLElement;
      for (const keyCode of [ARROW_DOWN, ENTER]) {
        fireEvent.keyDown(menu, { keyCode });
      }
      await pass(100);
      return question().querySelector('input') as HTMLInputElement;
    };
    await choose();
    fireEvent.click(within(question()).getByText('Cancel'));
    await pass(100);
    expect(api.asked.filter(asked => asked.startsWith('keep'))).toEqual([]);
    const input = await choose();
    fireEvent.input(input, { target: { value: ' rebuttal runs ' } });
    fireEvent.click(within(question()).getByText('Keep'));
    await pass(100);
    expect(api.asked).toContain('keep kernel:k1 1800 rebuttal runs');
  });

  it('offer no more keeping than the rule allows, and say so', async () => {
    await show(report({ holders: [holder({ keeps_left: 0 })] }));
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Keep demo.ipynb' }).disabled).toBe(true);
    expect(screen.getByRole('listitem', { name: 'work/demo.ipynb' }).textContent).toContain(
      'as often as its rule allows'
    );
  });

  it('take a promise back', async () => {
    await show(report({ holders: [holder({ lease: { until: after(3600), reason: 'demo' } })] }));
    await click('Stop keeping demo.ipynb');
    expect(api.asked).toContain('stop keeping kernel:k1');
  });

  it('shut down only after a question that says what is lost', async () => {
    await show(report());
    await click('Shut down demo.ipynb');
    const dialog = question();
    expect(dialog.textContent).toContain('Shut down demo.ipynb?');
    expect(dialog.textContent).toContain('All variables');
    expect(dialog.textContent).toContain('GPU memory given back: 6.0 GiB');
    fireEvent.click(within(dialog).getByText('Cancel'));
    await pass(100);
    expect(api.asked).not.toContain('shutdown kernel:k1');
    await click('Shut down demo.ipynb');
    fireEvent.click(within(question()).getByText('Shut Down'));
    await pass(100);
    expect(api.asked).toContain('shutdown kernel:k1');
  });

  it('offer what can be done while it lives on, and say what came of it', async () => {
    await show(report({ holders: [holder({ offers: ['release', 'park', 'shutdown'] })] }));
    expect(screen.queryByRole('button', { name: 'Resume demo.ipynb' })).toBeNull();
    api.came = outcome({ action: 'release', by: 'anna', freed_bytes: 3.1 * GIB, detail: 'PyTorch kept the rest.' });
    await click('Release GPU memory of demo.ipynb');
    expect(api.asked).toContain('release kernel:k1');
    expect(notifier.messages).toEqual(['demo.ipynb: gave back 3.1 GiB. PyTorch kept the rest.']);
    api.came = outcome({ action: 'park', result: 'unsuited', detail: 'The driver is too old.' });
    await click('Park demo.ipynb');
    expect([...notifier.toasts.values()][1]).toMatchObject({
      type: 'warning',
      message: 'demo.ipynb: left alone: this does not fit it. The driver is too old.'
    });
  });

  it('offer nothing that the server does not', async () => {
    await show(report({ holders: [holder({ offers: [] })] }));
    for (const name of ['Release GPU memory of demo.ipynb', 'Park demo.ipynb', 'Shut down demo.ipynb']) {
      expect(screen.queryByRole('button', { name })).toBeNull();
    }
  });

  it('show a parked kernel as parked, and resume it', async () => {
    const parked = holder({
      state: 'parked',
      memory_bytes: 0,
      parked: { since: after(-600), memory_bytes: 12 * GIB },
      offers: ['resume', 'shutdown'],
      verdict: verdict({ next_action: null, deadline: null, reasons: [] })
    });
    await show(report({ holders: [parked] }));
    const row = screen.getByRole('listitem', { name: 'work/demo.ipynb' });
    expect(row.textContent).toContain('parked');
    expect(row.textContent).toMatch(/12\.0 GiB in the memory of the host since \d\d:\d\d/);
    await click('Resume demo.ipynb');
    expect(api.asked).toContain('resume kernel:k1');
  });

  it('say that a shutdown has failed', async () => {
    api.came = outcome({ result: 'failed', detail: 'Jupyter could not shut it down.' });
    await show(report());
    await click('Shut down demo.ipynb');
    fireEvent.click(within(question()).getByText('Shut Down'));
    await pass(100);
    expect(notifier.messages).toEqual(['Could not shut down demo.ipynb: Jupyter could not shut it down.']);
  });

  it('say in words why an act was refused', async () => {
    api.refusal = new Fault('refused', 'At most 8 h can be kept at once.');
    await show(report({ holders: [holder({ lease: { until: after(3600), reason: '' } })] }));
    await click('Stop keeping demo.ipynb');
    expect(notifier.messages).toEqual(['Could not stop keeping demo.ipynb: At most 8 h can be kept at once.']);
  });

  it.each([
    [true, 'The server does not answer; whether it was done shows once it does.'],
    [false, 'The server cannot be reached; nothing was done.']
  ])('say what is known of an act that got lost, with the network there: %s', async (online, sentence) => {
    const line = jest.spyOn(window.navigator, 'onLine', 'get').mockReturnValue(online);
    api.refusal = new Fault('unreachable', 'Failed to fetch');
    await show(report({ holders: [holder({ lease: { until: after(3600), reason: '' } })] }));
    await click('Stop keeping demo.ipynb');
    line.mockRestore();
    expect(notifier.messages).toEqual([`Could not stop keeping demo.ipynb: ${sentence}`]);
  });

  it('unfold the reasons', async () => {
    await show(report({ holders: [holder({ protections: ['executing'] })] }));
    const why = screen.getByRole('button', { name: 'Why? demo.ipynb' });
    expect(why.getAttribute('aria-expanded')).toBe('false');
    await click('Why? demo.ipynb');
    expect(why.getAttribute('aria-expanded')).toBe('true');
    const text = document.getElementById(why.getAttribute('aria-controls') ?? '')?.textContent;
    expect(text).toContain('It held 6.0 GiB with less than 5 % compute for 1 h 20 min. The limit is 1 h.');
    expect(text).toContain('It is running a cell.');
    expect(text).toContain('Process 4321 on GPU 0: 6.0 GiB');
    expect(text).toMatch(/What comes\d\d:\d\d: it is shut down, at the earliest/);
    await click('The whole argument');
    expect(screen.getByText('Rule: default.', { selector: 'h4 + ul li' })).toBeTruthy();
    expect(screen.getByText('students: does not fit (group)')).toBeTruthy();
  });

  it('are unfolded and in sight when asked for', async () => {
    await show(report());
    panel.reveal('kernel:k1');
    await pass(100);
    expect(screen.getByRole('button', { name: 'Why? demo.ipynb' }).getAttribute('aria-expanded')).toBe('true');
    expect(document.activeElement).toBe(screen.getByTestId('gpu-guard-row'));
  });

  it('give way to what was done, when that is asked for', async () => {
    await show(report({ outcomes: [outcome({ id: 'o1' }), outcome({ id: 'o2', at: after(-60) })] }));
    panel.reveal('o1');
    await pass(100);
    const entries = [...document.querySelectorAll('details')].filter(entry => entry.textContent?.includes('shut down'));
    expect(entries.map(entry => entry.open)).toEqual([false, true]);
    expect(document.activeElement).toBe(entries[1].querySelector('summary'));
  });

  it('take the focus when the panel is asked for, and keep it where it is in the panel', async () => {
    const node = await show(report());
    panel.activate();
    await pass(100);
    expect(document.activeElement).toBe(node);
    const why = screen.getByRole('button', { name: 'Why? demo.ipynb' });
    why.focus();
    panel.activate();
    await pass(100);
    expect(document.activeElement).toBe(why);
  });

  it('give the focus back after a button that rests meanwhile, or goes', async () => {
    await show(report());
    await click('Keep demo.ipynb');
    const menu = document.querySelector('.lm-Menu') as HTMLElement;
    await pass(100);
    expect(menu.contains(document.activeElement)).toBe(true);
    for (const keyCode of [ARROW_DOWN, ENTER]) {
      fireEvent.keyDown(menu, { keyCode });
    }
    await pass(100);
    expect(api.asked.some(what => what.startsWith('keep'))).toBe(true);
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Keep demo.ipynb' }));
  });

  it('show a dash with its reason for what is not known', async () => {
    const unknown = holder({ memory_bytes: null, memory_bytes_unknown: 'pids-hidden', holdings: [] });
    await show(report({ holders: [unknown] }));
    expect(screen.getByTestId('gpu-guard-row').textContent).not.toContain('0 MiB');
    expect(screen.getByTitle('Not known: the driver names processes that cannot be seen from here.')).toBeTruthy();
  });
});

describe('TensorBoards and terminals', () => {
  const section = (name: string): HTMLElement =>
    screen.getByRole('heading', { name, level: 3 }).closest('section') as HTMLElement;

  it('leave what outlived a kernel, and kinds that this page does not know, a section each', async () => {
    const left = { ...holder({ owner: 'leftovers:k9', state: 'dead' }), kind: 'leftovers' as WireHolder['kind'] };
    const odd = { ...holder({ owner: 'robot:1', name: 'R2', notebook: null }), kind: 'robot' as WireHolder['kind'] };
    await show(report({ holders: [left, odd] }));
    expect(section('Left behind').textContent).toContain('left behind by an earlier run, no compute for 1 h 20 min');
    expect(section('Other').textContent).toContain('R2');
    await click('Stop demo.ipynb');
    expect(question().textContent).toContain('These processes are ended');
    fireEvent.click(within(question()).getByText('Cancel'));
    await pass(100);
  });

  it('have sections of their own, which are absent while there are none', async () => {
    await show(report({ holders: [holder(), board({}, { duplicate: true }), terminal()] }));
    expect(section('TensorBoards').textContent).toContain('port 6006 · runs for 3 h');
    expect(section('TensorBoards').textContent).toContain('Another TensorBoard shows the same logs');
    expect(section('Terminals').textContent).toContain('2 processes run in it besides its shell.');
    api.answer = report();
    await pass(6000);
    expect(screen.queryByRole('heading', { name: 'TensorBoards' })).toBeNull();
    expect(screen.queryByRole('heading', { name: 'Terminals' })).toBeNull();
  });

  it.each([
    [board(), 'TensorBoard exp1', 'Logs: /home/anna/runs/exp1'],
    [terminal(), 'Terminal 1', '2 processes run in it besides its shell.']
  ])('are stopped after a question that says what is lost', async (found, name, loss) => {
    await show(report({ holders: [found] }));
    await click(`Stop ${name}`);
    expect(question().textContent).toContain(`Stop ${name}?`);
    expect(question().textContent).toContain(loss);
    expect(question().textContent).not.toContain('GPU memory given back');
    fireEvent.click(within(question()).getByText('Cancel'));
    await pass(100);
    expect(api.asked).not.toContain(`shutdown ${found.owner}`);
    await click(`Stop ${name}`);
    fireEvent.click(within(question()).getByText('Stop'));
    await pass(100);
    expect(api.asked).toContain(`shutdown ${found.owner}`);
  });
});

describe('the panel', () => {
  it('says before all else what could not be seen', async () => {
    const why = 'This container cannot see its own GPU processes.';
    const node = await show(report({ gaps: [{ source: 'devices', why, since: after(-60) }] }));
    const text = node.textContent ?? '';
    expect(text.indexOf(why)).toBeGreaterThan(-1);
    expect(text.indexOf(why)).toBeLessThan(text.indexOf('demo.ipynb'));
  });

  it('marks MIG instances, free devices, and what is left behind', async () => {
    const leftovers = [{ pid: 9, started_at: after(-9), device: 'GPU-a', memory_bytes: 4 * GIB, compute_percent: 0 }];
    const idle = { compute_percent: 0, memory_used_bytes: 0 };
    await show(
      report({
        devices: [device(), device({ uuid: 'MIG-1', part_of: 'GPU-a' }), device({ ...idle, uuid: 'GPU-b', index: 1 })],
        holders: [holder({ leftovers, died: true })]
      })
    );
    expect(screen.getAllByTestId('gpu-guard-device').map(card => card.dataset.nested)).toEqual([
      'false',
      'true',
      'false'
    ]);
    expect(screen.getByRole('listitem', { name: 'GPU 1 NVIDIA H100' }).textContent).toContain('free');
    expect(screen.getByTestId('gpu-guard-row').textContent).toContain(
      'The kernel died; 1 process it had started holds 4.0 GiB.'
    );
  });

  it('shows a card for each device', async () => {
    await show(report({ devices: [device(), device({ uuid: 'GPU-b', index: 1, name: 'NVIDIA L4' })] }));
    expect(screen.getAllByTestId('gpu-guard-device')).toHaveLength(2);
    expect(screen.getByRole('listitem', { name: 'GPU 1 NVIDIA L4' }).textContent).toContain('20.0 GiB of 80.0 GiB');
  });

  it('says that devices are simulated, and that it only observes', async () => {
    const node = await show(report({ simulated: true, mode: 'observe' }));
    expect(node.textContent).toContain('simulated');
    expect(node.textContent).toContain('observing: nothing is ended');
  });

  it('says neither otherwise', async () => {
    const node = await show(report());
    expect(node.textContent).not.toContain('simulated');
    expect(node.textContent).not.toContain('observing');
  });

  it('announces a warning in a live region', async () => {
    await show(report({ notices: [notice()] }));
    expect(screen.getByRole('status').textContent).toMatch(/demo\.ipynb will be shut down at \d\d:\d\d/);
  });

  it('shows the fault of a policy, gaps, and what was done', async () => {
    const node = await show(
      report({
        policy: { hash: '', source: 'site.yaml', fault: 'site.yaml:3: unknown key' },
        gaps: [{ source: 'nvml', why: 'GPU 2 does not answer.', since: after(-60) }],
        outcomes: [outcome()]
      })
    );
    expect(node.textContent).toContain('site.yaml:3: unknown key');
    expect(node.textContent).toContain('GPU 2 does not answer.');
    expect(node.textContent).toContain('shut down · 6.0 GiB freed');
  });

  it('tells of a policy that waits, and whom it would end', async () => {
    const pending = {
      hash: 'def',
      source: 'site.yaml',
      since: after(-60),
      touched: [
        { owner: 'kernel:a', name: 'a.ipynb' },
        { owner: 'kernel:b', name: '' }
      ],
      holders: 3
    };
    const node = await show(report({ policy: { hash: 'abc', source: 'site.yaml', fault: null, pending } }));
    expect(node.textContent).toContain('A new policy is not in force yet.');
    expect(node.textContent).toContain('would newly end 2 of 3');
    expect(node.textContent).toContain('a.ipynb, kernel:b');
  });

  it('says why there is nothing to measure', async () => {
    const gaps = [{ source: 'nvml', why: 'There is no NVIDIA driver here.', since: after(-60) }];
    const node = await show(report({ devices: [], holders: [], gaps }));
    expect(node.textContent).toContain('There is no NVIDIA driver here.');
    expect(node.textContent).not.toContain('No notebook holds GPU memory.');
  });

  it('is content when no notebook holds memory', async () => {
    const node = await show(report({ holders: [] }));
    expect(node.textContent).toContain('No notebook holds GPU memory.');
  });

  it('waits for the first reading, and tells what keeps it', async () => {
    const node = await show(report({ taken_at: null, devices: [], holders: [] }));
    expect(node.textContent).toContain('No reading yet.');
    expect(node.textContent).toContain('The driver does not answer.');
  });

  it('tells how to mend a missing server part', async () => {
    const node = await show(new Fault('missing', 'Not Found', '/user/anna/gpu-guard/api/v1/report'));
    expect(node.textContent).toContain('Asked for: /user/anna/gpu-guard/api/v1/report');
    expect(node.textContent).toContain('jupyter server extension enable jupyter_gpu_guard');
    api.answer = report();
    await click('Try again');
    expect(screen.getByTestId('gpu-guard-row')).toBeTruthy();
  });

  it('tells of a missing permission', async () => {
    expect((await show(new Fault('forbidden', ''))).textContent).toContain('You may not see the GPUs');
  });

  it('greys what is old when the network is gone, and tells its age', async () => {
    const node = await show(report());
    api.answer = new Fault('unreachable', '', '/gpu-guard/api/v1/report');
    await pass(60_000);
    expect(node.textContent).toContain('Asked for: /gpu-guard/api/v1/report');
    expect(node.textContent).toContain('The server does not answer.');
    expect(node.textContent).toMatch(/What is shown here is \d+ s old\./);
    expect(node.querySelector('[data-stale="true"]')).not.toBeNull();
    expect(screen.getByTestId('gpu-guard-row')).toBeTruthy();
  });

  it('polls fast only while it is seen', async () => {
    await show(report());
    const before = api.asked.length;
    await pass(20_000);
    expect(api.asked.length - before).toBe(4);
    panel.hide();
    const hidden = api.asked.length;
    await pass(20_000);
    expect(api.asked.length - hidden).toBeLessThanOrEqual(1);
  });

  it('offers an order and a filter once there is enough for it, and remembers the order', async () => {
    const many = (count: number): WireReport =>
      report({
        devices: [device(), device({ uuid: 'GPU-b', index: 1 })],
        holders: Array.from({ length: count }, (_, index) =>
          holder({ owner: `kernel:${index}`, notebook: `n${index}.ipynb`, memory_bytes: (index + 1) * GIB })
        )
      });
    const titles = (): (string | null)[] =>
      screen.getAllByTestId('gpu-guard-row').map(row => row.getAttribute('aria-label'));
    await show(many(1));
    expect(screen.queryByRole('combobox')).toBeNull();
    api.answer = many(7);
    await pass(6000);
    expect(titles()[0]).toBe('n6.ipynb');
    fireEvent.change(screen.getByRole('combobox', { name: 'Order' }), { target: { value: 'name' } });
    await pass(100);
    expect(titles()[0]).toBe('n0.ipynb');
    expect(storage.getItem('jupyter-gpu-guard:arrangement')).toContain('"name"');
    fireEvent.click(screen.getByRole('checkbox', { name: 'By device' }));
    await pass(100);
    expect(screen.getByRole('heading', { name: 'GPU 0', level: 3 })).toBeTruthy();
    const filter = screen.getByRole('searchbox', { name: 'Filter by name' });
    fireEvent.change(filter, { target: { value: 'N3.ip' } });
    await pass(100);
    expect(titles()).toEqual(['n3.ipynb']);
    fireEvent.change(filter, { target: { value: 'nowhere' } });
    await pass(100);
    expect(screen.getByTestId('gpu-guard-panel').textContent).toContain('No notebook fits “nowhere”.');
  });

  it('draws the last hour of a row and of a device, in words too', async () => {
    const history = { compute_percent: [0, 50], memory_bytes: [GIB, GIB] };
    await show(report({ holders: [holder({ history })], devices: [device({ history })] }));
    const name = 'Compute in the last 2 min: 25 % in the mean, 50 % at most';
    expect(screen.getAllByRole('img', { name })).toHaveLength(2);
  });

  it('says what is held without work costs, where a price is set', async () => {
    const node = await show(report({ price: { gpu_hour: 2, currency: '€' } }));
    expect(node.textContent).toMatch(/Held without work: 0\.15 € an hour/);
  });

  it.each(['Policy: built-in defaults', 'The policy'])('shows the policy in force by “%s”', async name => {
    await show(report());
    await click('Why? demo.ipynb');
    await click(name);
    expect(question().textContent).toContain('Policy in force');
    expect(question().textContent).toContain('studentsgroup: students');
    expect(question().textContent).toContain('shutdown: 15 min after the limit is reached');
    fireEvent.click(within(question()).getByText('Close'));
    await pass(100);
  });

  it('opens the history', async () => {
    await show(report());
    await click('History');
    expect(opened).toEqual(['history']);
  });

  it('draws two hundred rows', async () => {
    const many = Array.from({ length: 200 }, (_, index) =>
      holder({ owner: `kernel:${index}`, notebook: `n${index}.ipynb`, memory_bytes: (index + 1) * GIB })
    );
    await show(report({ holders: many }));
    expect(screen.getAllByTestId('gpu-guard-row')).toHaveLength(200);
  });

  it('keeps a row that is unfolded unfolded when the next report comes', async () => {
    await show(report());
    await click('Why? demo.ipynb');
    api.answer = report({ holders: [holder({ idle_seconds: 4900, verdict: verdict({ deadline: after(700) }) })] });
    await pass(6000);
    expect(screen.getByTestId('gpu-guard-row').textContent).toContain('in 11 min');
    expect(screen.getByRole('button', { name: 'Why? demo.ipynb' }).getAttribute('aria-expanded')).toBe('true');
  });
});

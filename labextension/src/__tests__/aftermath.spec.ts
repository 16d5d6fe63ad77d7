import type { DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import { Signal } from '@lumino/signaling';
import { BoxPanel, Widget } from '@lumino/widgets';
import { act } from 'react';
import { Aftermath } from '../aftermath';
import { english } from '../language';
import { GuardModel } from '../model';
import { Seen } from '../seen';
import type { WireOutcome, WireReport } from '../wire';
import { after, FakeApi, FakeNotifier, FakeStorage, NOW, outcome, report } from './fixtures';

/** As much of an open notebook as a banner needs: a path and a place above the cells. */
class FakeNotebook {
  readonly contentHeader = new BoxPanel();
  readonly kernelChanged = new Signal<this, void>(this);
  readonly sessionContext = {
    isReady: true,
    kernelChanged: this.kernelChanged,
    session: null as { kernel: { id: string } } | null
  };
  readonly context = this;

  constructor(public localPath: string) {
    Widget.attach(this.contentHeader, document.body);
  }

  get banners(): string[] {
    return [...this.contentHeader.widgets].map(widget => widget.node.textContent ?? '');
  }

  /** A kernel runs for it now. */
  async run(id: string): Promise<void> {
    await act(async () => {
      this.sessionContext.session = { kernel: { id } };
      this.kernelChanged.emit();
      await jest.advanceTimersByTimeAsync(10);
    });
  }

  async press(label: string): Promise<void> {
    const buttons = [...this.contentHeader.node.querySelectorAll('button')];
    await act(async () => {
      buttons.find(button => button.textContent === label)?.click();
      await jest.advanceTimersByTimeAsync(10);
    });
  }
}

let api: FakeApi;
let model: GuardModel;
let notifier: FakeNotifier;
let storage: FakeStorage;
let aftermath: Aftermath;
let shown: string[];

const start = (): void => {
  const seen = new Seen(storage, 'seen');
  aftermath = new Aftermath(model, seen, new Seen(storage, 'told'), notifier, english, id => shown.push(id));
};

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  api = new FakeApi();
  model = new GuardModel({ api });
  notifier = new FakeNotifier();
  storage = new FakeStorage();
  shown = [];
  start();
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

const say = (...outcomes: WireOutcome[]): Promise<void> => tell({ outcomes });

async function tell(changes: Partial<WireReport>): Promise<void> {
  api.answer = report(changes);
  await act(async () => {
    void model.refresh();
    await jest.advanceTimersByTimeAsync(100);
  });
}

async function open(path: string): Promise<FakeNotebook> {
  const notebook = new FakeNotebook(path);
  await place(notebook);
  return notebook;
}

async function place(notebook: FakeNotebook): Promise<void> {
  await act(async () => {
    aftermath.createNew(
      notebook as unknown as DocumentWidget,
      notebook as unknown as DocumentRegistry.IContext<DocumentRegistry.IModel>
    );
    await jest.advanceTimersByTimeAsync(10);
  });
}

describe('Aftermath', () => {
  it('leads to what was done', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome({ id: 'the end', notebook: 'work/demo.ipynb' }));
    await notebook.press('Show');
    expect(shown).toEqual(['the end']);
  });

  it('tells in the open notebook what happened, by which rule, on which readings, and what was freed', async () => {
    const mine = await open('work/demo.ipynb');
    const other = await open('work/other.ipynb');
    await say(outcome());
    expect(mine.banners[0]).toMatch(/The kernel of demo\.ipynb was shut down at \d\d:\d\d by rule default\./);
    expect(mine.banners[0]).toContain('less than 5 % compute for 1 h 20 min');
    expect(mine.banners[0]).toContain('GPU memory freed: 6.0 GiB.');
    expect(other.banners).toEqual([]);
  });

  it('does not take the end of a TensorBoard for that of the kernel that started it', async () => {
    const mine = await open('work/demo.ipynb');
    await say(outcome({ owner: 'tensorboard:6006', name: 'TensorBoard exp1', freed_bytes: 0 }));
    expect(mine.banners).toEqual([]);
    expect(notifier.messages[0]).toMatch(/^TensorBoard exp1 was shut down at \d\d:\d\d by rule default\.$/);
  });

  it('does not advise what helps no longer', async () => {
    const mine = await open('work/demo.ipynb');
    await say(outcome({ reasons: [{ code: 'last-cell-failed', text: '', facts: {} }] }));
    expect(mine.banners[0]).not.toContain('Its last cell');
  });

  it('tells it to a notebook that is opened later', async () => {
    await say(outcome());
    expect((await open('work/demo.ipynb')).banners).toHaveLength(1);
  });

  it('does not stack up: the latest time counts', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome({ id: 'old', at: after(-9000), rule: 'first' }), outcome({ id: 'new', rule: 'second' }));
    await say(outcome({ id: 'old', at: after(-9000), rule: 'first' }), outcome({ id: 'new', rule: 'second' }));
    expect(notebook.banners).toHaveLength(1);
    expect(notebook.banners[0]).toContain('by rule second');
  });

  it('stays until dismissed, and then stays away, also after a reload', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome(), outcome({ id: 'older', at: after(-9000) }));
    await notebook.press('Dismiss');
    expect(notebook.banners).toEqual([]);
    start();
    expect((await open('work/demo.ipynb')).banners).toEqual([]);
  });

  it('goes once a kernel is chosen below it, and stays away', async () => {
    const notebook = await open('work/demo.ipynb');
    await notebook.run('k1');
    await say(outcome({ owner: 'kernel:k1' }));
    expect(notebook.banners[0]).toContain('Choose a kernel to go on.');
    await notebook.run('k2');
    expect(notebook.banners).toEqual([]);
    start();
    expect((await open('work/demo.ipynb')).banners).toEqual([]);
  });

  it('tells whoever opens the notebook later too, and asks for no kernel where one runs already', async () => {
    await say(outcome({ owner: 'kernel:k1' }));
    const notebook = new FakeNotebook('work/demo.ipynb');
    notebook.sessionContext.isReady = false;
    await place(notebook);
    await notebook.run('k2');
    notebook.sessionContext.isReady = true;
    await say(outcome({ owner: 'kernel:k1' }));
    expect(notebook.banners[0]).toContain('outputs were left as they were.');
    expect(notebook.banners[0]).not.toContain('Choose a kernel');
  });

  it('says which processes still hold memory, and does not call that freed', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome({ survivors: [911, 912] }));
    expect(notebook.banners[0]).toContain('process 911, 912 still holds some');
    expect(notebook.banners[0]).not.toContain('freed: 6.0');
  });

  it.each(['rehearsed', 'already-gone', 'withdrawn', 'failed', 'unknown'] as const)(
    'says nothing when it was %s',
    async result => {
      const notebook = await open('work/demo.ipynb');
      await say(outcome({ result }), outcome({ id: 'o2', action: 'warn' }));
      expect(notebook.banners).toEqual([]);
      expect(notifier.messages).toEqual([]);
    }
  );

  it('gives one lasting notification for each, once per browser', async () => {
    await say(outcome());
    await say(outcome());
    expect(notifier.messages).toHaveLength(1);
    expect(notifier.messages[0]).toMatch(/^The kernel of demo\.ipynb was shut down .* GPU memory freed: 6\.0 GiB\.$/);
    expect([...notifier.toasts.values()][0].options?.autoClose).toBe(false);
    start();
    await say(outcome());
    expect(notifier.messages).toHaveLength(1);
  });

  it('does not flood: many at once come as one', async () => {
    await say(...['1', '2', '3', '4', '5'].map(id => outcome({ id })));
    expect(notifier.messages).toEqual(['5 kernels were shut down.']);
  });

  it('says everywhere that the devices are simulated', async () => {
    const notebook = await open('work/demo.ipynb');
    await tell({ simulated: true, outcomes: [outcome()] });
    expect(notebook.banners[0]).toContain('by rule default. (simulated)');
    expect(notifier.messages[0]).toMatch(/freed: 6\.0 GiB\. \(simulated\)$/);
    await tell({ simulated: true, outcomes: ['1', '2', '3', '4'].map(id => outcome({ id })) });
    expect(notifier.messages[1]).toBe('4 kernels were shut down. (simulated)');
  });

  it('tells the others, but not by notification, when a person asked for it', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome({ by: 'anna' }));
    expect(notebook.banners[0]).toContain('at the request of anna');
    expect(notifier.messages).toEqual([]);
  });
});

describe('Seen', () => {
  it('shows once more rather than failing when the storage is full or broken', () => {
    const seen = new Seen(storage, 'k');
    storage.full = true;
    seen.add('a');
    expect(seen.has('a')).toBe(false);
    storage.full = false;
    storage.items.set('k', '{not json');
    expect(seen.has('a')).toBe(false);
    seen.add('a');
    expect(seen.has('a')).toBe(true);
  });

  it('does not grow without end', () => {
    const seen = new Seen(storage, 'k');
    seen.add(...Array.from({ length: 500 }, (_, index) => `o${index}`));
    expect(seen.has('o499')).toBe(true);
    expect(seen.has('o0')).toBe(false);
  });
});

describe('a kernel that lives on', () => {
  const parked = outcome({ id: 'p1', action: 'park', reasons: [] });

  it('is not meant by what an earlier run of it left behind', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(outcome({ owner: 'leftovers:k1' }));
    expect(notifier.messages[0]).toMatch(/^What an earlier run of demo\.ipynb left behind was ended at \d\d:\d\d by/);
    expect(notebook.banners).toEqual([]);
  });

  it('is told of once when a rule has parked it, and has no banner', async () => {
    const notebook = await open('work/demo.ipynb');
    await say(parked);
    await say(parked);
    expect(notifier.messages).toEqual([
      'demo.ipynb was moved to the memory of the host by rule default. It comes back when a cell runs.'
    ]);
    expect(notebook.banners).toEqual([]);
  });

  it.each([
    { ...parked, by: 'anna' },
    { ...parked, result: 'rehearsed' as const },
    { ...parked, action: 'release' as const },
    { ...parked, action: 'resume' as const }
  ])('is not told of otherwise', async gentle => {
    await say(gentle);
    expect(notifier.messages).toEqual([]);
  });
});

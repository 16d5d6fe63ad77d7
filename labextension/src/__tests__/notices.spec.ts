import { GuardActions } from '../actions';
import { Fault } from '../api';
import { english } from '../language';
import { GuardModel } from '../model';
import { noticeText, NoticeBoard } from '../notices';
import type { WireNotice } from '../wire';
import { after, FakeApi, FakeNotifier, NOW, notice, report } from './fixtures';

let api: FakeApi;
let model: GuardModel;
let notifier: FakeNotifier;
let shown: string[];
let onScreen: boolean;

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  api = new FakeApi();
  model = new GuardModel({ api });
  notifier = new FakeNotifier();
  shown = [];
  onScreen = true;
  const actions = new GuardActions(model, notifier, english);
  new NoticeBoard(
    model,
    notifier,
    actions,
    english,
    owner => shown.push(owner),
    () => onScreen
  );
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

async function say(...notices: WireNotice[]): Promise<void> {
  api.answer = report({ notices });
  void model.refresh();
  await jest.advanceTimersByTimeAsync(100);
}

describe('NoticeBoard', () => {
  it('shows each warning once, however often the report comes', async () => {
    await say(notice(), notice({ id: 'n2', name: 'other.ipynb', notebook: 'other.ipynb' }));
    await say(notice(), notice({ id: 'n2', name: 'other.ipynb', notebook: 'other.ipynb' }));
    expect(notifier.messages).toHaveLength(2);
    expect([...notifier.toasts.values()][0].options?.autoClose).toBe(false);
  });

  it('takes it away when the warning no longer stands', async () => {
    await say(notice());
    await say();
    expect(notifier.messages).toEqual([]);
  });

  it('leaves it alone while the server does not answer', async () => {
    await say(notice());
    api.answer = Object.assign(new Error(), {}) as never;
    void model.refresh();
    await jest.advanceTimersByTimeAsync(100);
    expect(notifier.messages).toHaveLength(1);
  });

  it('keeps for an hour on Keep, and says so', async () => {
    await say(notice());
    api.answer = report({ notices: [] });
    notifier.press('Keep 1 h');
    await jest.advanceTimersByTimeAsync(100);
    expect(api.asked).toContain('keep kernel:k1 3600');
    expect(notifier.messages).toEqual(['demo.ipynb is kept for 1 h.']);
  });

  it('offers no more than the policy allows', async () => {
    await say(notice({ longest_keep_seconds: 1200 }));
    notifier.press('Keep 20 min');
    await jest.advanceTimersByTimeAsync(100);
    expect(api.asked).toContain('keep kernel:k1 1200');
  });

  it('offers no Keep where none is allowed', async () => {
    await say(notice({ longest_keep_seconds: 0 }));
    expect(() => {
      notifier.press('Keep 0 s');
    }).toThrow();
    notifier.press('Show');
    expect(shown).toEqual(['kernel:k1']);
  });

  it('follows the minutes while it is on the screen', async () => {
    await say(notice());
    await jest.advanceTimersByTimeAsync(330_000);
    expect(notifier.messages[0]).toContain('in 9 min');
  });

  it('does not bring back what a person has closed', async () => {
    await say(notice());
    onScreen = false;
    await jest.advanceTimersByTimeAsync(300_000);
    expect(notifier.updates).toBe(0);
    const [toast] = notifier.toasts.keys();
    notifier.dismiss(toast);
    await say(notice());
    expect(notifier.messages).toEqual([]);
  });

  it('says that the devices are simulated', async () => {
    api.answer = report({ simulated: true, notices: [notice()] });
    void model.refresh();
    await jest.advanceTimersByTimeAsync(100);
    expect(notifier.messages[0]).toMatch(/ \(simulated\)$/);
  });

  it('shows why the server refuses to keep', async () => {
    await say(notice());
    api.answer = report({ notices: [] });
    api.refusal = new Fault('refused', 'it is being shut down; it is too late to keep it');
    notifier.press('Keep 1 h');
    await jest.advanceTimersByTimeAsync(100);
    expect(notifier.messages).toContain('Could not keep demo.ipynb: it is being shut down; it is too late to keep it');
  });

  it('lets a hint go by itself', async () => {
    await say(notice({ deadline: null, next_action: null }));
    expect([...notifier.toasts.values()][0].options?.autoClose).toBeGreaterThan(0);
    expect(notifier.messages[0]).toContain('Nothing is ended by itself.');
  });
});

describe('noticeText', () => {
  it('says of a warning that reached nobody that a loss follows once it does', () => {
    const untold = notice({ deadline: null, next_action: null, undelivered: true });
    expect(noticeText(untold, NOW, english)).toContain('It is to be shut down, once somebody has been told.');
  });

  it('names the notebook, the memory and the time left', () => {
    expect(noticeText(notice(), NOW, english)).toMatch(
      /^demo\.ipynb holds 6\.0 GiB GPU memory without compute\. It is shut down in 14 min, at \d\d:\d\d\.$/
    );
    expect(noticeText(notice({ deadline: after(30) }), NOW, english)).toContain('in less than a minute');
  });

  it('fits into what JupyterLab shows, and keeps the time even with a long name', () => {
    const text = noticeText(notice({ notebook: `${'x'.repeat(300)}.ipynb` }), NOW, english);
    expect(text.length).toBeLessThanOrEqual(140);
    expect(text).toMatch(/in 14 min, at \d\d:\d\d\.$/);
  });

  it('keeps the whole sentence where it also says that the devices are simulated', () => {
    const text = noticeText(notice({ notebook: `${'x'.repeat(300)}.ipynb` }), NOW, english, { simulated: true });
    expect(text.length).toBeLessThanOrEqual(140);
    expect(text).toMatch(/ without compute\. It is shut down in 14 min, at \d\d:\d\d\. \(simulated\)$/);
    const hint = noticeText(notice({ deadline: null, next_action: null }), NOW, english, { simulated: true });
    expect(hint).toMatch(/ \(simulated\)$/);
  });
});

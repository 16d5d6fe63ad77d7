import { Signal } from '@lumino/signaling';
import type { IReportAnswer } from '../api';
import { GuardModel } from '../model';
import { type IPages, otherPages } from '../pages';
import { after, FakeApi, holder, notice, NOW, report, verdict } from './fixtures';

/** Two pages of one browser, without the browser. */
class FakePages implements IPages {
  readonly received = new Signal<this, IReportAnswer>(this);
  readonly told: IReportAnswer[] = [];
  tell(answer: IReportAnswer): void {
    this.told.push(answer);
  }
  dispose(): void {
    Signal.clearData(this);
  }
}

let api: FakeApi;
let pages: FakePages;
let model: GuardModel;

const pass = (seconds: number): Promise<void> => jest.advanceTimersByTimeAsync(seconds * 1000);
const looks = (): number => api.asked.filter(what => what === 'report').length;
const quiet = report({ notices: [], holders: [holder({ verdict: verdict({ next_action: null, deadline: null }) })] });

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  api = new FakeApi();
  pages = new FakePages();
  model = new GuardModel({ api, pollSeconds: 5, pages });
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

describe('pages of one browser', () => {
  it('are told what this one was given', async () => {
    await pass(0.1);
    expect(pages.told).toEqual([{ report: report(), serverTime: null }]);
  });

  it('ask for this one too: it makes no request while another does', async () => {
    model.watched = true;
    await pass(0.1);
    const before = looks();
    for (let seconds = 0; seconds < 60; seconds += 4) {
      await pass(4);
      pages.received.emit({ report: report({ taken_at: after(seconds) }), serverTime: null });
    }
    expect(looks()).toBe(before);
    expect(model.report?.taken_at).toBe(after(56));
    await pass(11);
    expect(looks()).toBe(before + 2); // the other page is gone
  });

  it('do not take back what this one knows of the same look', async () => {
    await pass(0.1);
    pages.received.emit({ report: report({ holders: [] }), serverTime: null });
    expect(model.report).toEqual(report());
  });

  it('are not drawn while this one is hidden', async () => {
    await pass(0.1);
    const hidden = jest.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    pages.received.emit({ report: report({ taken_at: after(60) }), serverTime: null });
    expect(model.report).toEqual(report());
    hidden.mockRestore();
  });

  it('are done without where the browser has no channel', () => {
    expect(typeof BroadcastChannel).toBe('undefined');
    expect(otherPages('/')).toBeNull();
  });
});

describe('a page on which nothing shows', () => {
  it('makes no request while no warning is due', async () => {
    api.answer = quiet;
    model.glance('status', false);
    await pass(0.1);
    const before = looks();
    await pass(3600);
    expect(looks()).toBe(before);
    model.glance('status', true);
    await pass(31);
    expect(looks()).toBe(before + 1);
  });

  it.each([
    ['a warning stands', report({ notices: [notice()], holders: [] })],
    ['a deadline is near', report({ notices: [], holders: [holder({ verdict: verdict({ deadline: after(100) }) })] })]
  ])('still looks while %s', async (_, answer) => {
    api.answer = answer;
    model.glance('status', false);
    await pass(0.1);
    const before = looks();
    await pass(89);
    expect(looks()).toBeGreaterThanOrEqual(before + 2);
  });

  it('looks again shortly before a deadline', async () => {
    api.answer = report({ notices: [], holders: [holder({ verdict: verdict({ deadline: after(3600) }) })] });
    model.glance('status', false);
    await pass(0.1);
    const before = looks();
    await pass(3530);
    expect(looks()).toBe(before);
    await pass(20);
    expect(looks()).toBe(before + 1);
  });

  it('looks at once when a person opens a face, and when an event tells of news', async () => {
    api.answer = quiet;
    model.glance('status', false);
    await pass(0.1);
    const before = looks();
    model.watch('history', true);
    await pass(0.1);
    expect(looks()).toBe(before + 1);
    model.watch('panel', true);
    model.watch('history', false);
    await pass(10);
    expect(looks()).toBe(before + 3); // one of two faces is still looked at
    model.watch('panel', false);
    await pass(5); // the interval under way still ends
    const rested = looks();
    await pass(600);
    expect(looks()).toBe(rested);
  });
});

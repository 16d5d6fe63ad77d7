import type { Event } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { Fault } from '../api';
import { GuardModel } from '../model';
import { FakeApi, NOW, outcome, report } from './fixtures';

let api: FakeApi;
let model: GuardModel;
let changes: number;

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  api = new FakeApi();
  model = new GuardModel({ api, pollSeconds: 5 });
  changes = 0;
  model.changed.connect(() => {
    changes += 1;
  });
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

const pass = (seconds: number): Promise<void> => jest.advanceTimersByTimeAsync(seconds * 1000);
const looks = (): number => api.asked.filter(what => what === 'report').length;

describe('GuardModel', () => {
  it('asks at once, and has nothing to show before the answer', async () => {
    expect(model.report).toBeNull();
    await pass(0.1);
    expect(model.report).toEqual(report());
    expect(model.fault).toBeNull();
    expect(changes).toBe(1);
  });

  it('asks every few seconds while somebody looks, and rarely otherwise', async () => {
    await pass(0.1);
    await pass(60);
    expect(looks()).toBe(3);
    model.watched = true;
    await pass(0.1);
    expect(looks()).toBe(4);
    await pass(10);
    expect(looks()).toBe(6);
  });

  it('follows a new interval', async () => {
    model.watched = true;
    model.pollSeconds = 2;
    await pass(0.1);
    await pass(5.2); // the interval under way still ends
    const before = looks();
    await pass(20);
    expect(looks() - before).toBeGreaterThanOrEqual(9);
  });

  it('asks at once on one of our events, and not on others', async () => {
    const stream = new Signal<object, Event.Emission>({});
    model.listen(stream);
    await pass(0.1);
    stream.emit({ schema_id: 'https://events.jupyter.org/jupyter_server/kernel_actions/v1' });
    await pass(0.1);
    expect(looks()).toBe(1);
    stream.emit({ schema_id: 'https://events.jupyter-gpu-guard.org/notice/v1' });
    await pass(0.1);
    expect(looks()).toBe(2);
  });

  it('asks nothing while the page is hidden, and at once when it is seen again', async () => {
    const stream = new Signal<object, Event.Emission>({});
    model.listen(stream);
    await pass(0.1);
    const hidden = jest.spyOn(document, 'hidden', 'get');
    const state = jest.spyOn(document, 'visibilityState', 'get');
    const hide = (yes: boolean): void => {
      hidden.mockReturnValue(yes);
      state.mockReturnValue(yes ? 'hidden' : 'visible');
      document.dispatchEvent(new Event('visibilitychange'));
    };
    hide(true);
    await pass(600); // the poll asks once more before it stands by
    const meanwhile = looks();
    stream.emit({ schema_id: 'https://events.jupyter-gpu-guard.org/notice/v1' });
    await pass(600);
    const told = looks();
    hide(false);
    await pass(0.1);
    const afterwards = looks();
    hidden.mockRestore();
    state.mockRestore();
    expect(meanwhile).toBeLessThanOrEqual(2);
    expect(told).toBe(meanwhile);
    expect(afterwards).toBe(meanwhile + 1);
  });

  it('asks once more when told during a request: that one may have left too early', async () => {
    await pass(0.1);
    let open = (): void => undefined;
    api.gate = new Promise(resolve => {
      open = resolve;
    });
    void model.refresh();
    await pass(0.1);
    expect(looks()).toBe(2);
    void model.refresh();
    void model.refresh();
    await pass(0.1);
    expect(looks()).toBe(2);
    open();
    await pass(0.1);
    expect(looks()).toBe(3);
  });

  it('passes each act on, says what came of it, and looks again', async () => {
    api.came = outcome({ action: 'release' });
    for (const act of ['release', 'park', 'resume'] as const) {
      const before = api.asked.length;
      const acting = model[act]('kernel:k1');
      await pass(0.1);
      expect(await acting).toBe(api.came);
      expect(api.asked.slice(before)).toEqual([`${act} kernel:k1`, 'report']);
    }
    const ending = model.shutDown('kernel:k1');
    await pass(0.1);
    expect(await ending).toBe(api.came);
    expect(api.asked).toContain('shutdown kernel:k1');
    expect(await model.policy()).toBe(api.inForce);
  });

  it('looks again after an act, also after a refused one', async () => {
    await pass(0.1);
    const kept = model.keep('kernel:k1', 3600, 'demo');
    await pass(0.1);
    await kept;
    expect(api.asked.slice(-2)).toEqual(['keep kernel:k1 3600 demo', 'report']);
    api.refusal = new Fault('refused', 'At most 8 h.');
    const refused = expect(model.keep('kernel:k1', 1e9)).rejects.toThrow('At most 8 h.');
    await pass(0.1);
    await refused;
    expect(api.asked.slice(-1)).toEqual(['report']);
  });

  it('keeps the last report when the network is gone, and says so', async () => {
    await pass(0.1);
    api.answer = new Fault('unreachable', 'Failed to fetch');
    model.watched = true;
    await pass(6);
    expect(model.report).toEqual(report());
    expect(model.receivedAt).toBeLessThan(NOW + 1000);
    expect(model.fault?.kind).toBe('unreachable');
    api.answer = report({ mode: 'observe' });
    await pass(60);
    expect(model.fault).toBeNull();
    expect(model.report?.mode).toBe('observe');
  });

  it.each(['missing', 'forbidden'] as const)('stops asking when the server part is %s, until told', async kind => {
    api.answer = new Fault(kind, '');
    model.watched = true;
    await pass(0.1);
    const before = looks();
    await pass(600);
    expect(looks()).toBe(before);
    api.answer = report();
    void model.refresh();
    await pass(0.1);
    expect(model.report).not.toBeNull();
    await pass(10);
    expect(looks()).toBe(before + 3);
  });

  it('does not show a report that it does not understand', async () => {
    api.answer = report({ schema_version: 2 });
    await pass(0.1);
    expect(model.report).toBeNull();
    expect(model.fault?.message).toContain('schema_version 2');
  });

  it('reads deadlines on the clock of the server, but not for a second or two', async () => {
    api.serverTime = NOW - 1000;
    await pass(0.1);
    expect(model.now() - Date.now()).toBe(0);
    api.serverTime = Date.now() - 600_000;
    void model.refresh();
    await pass(0.1);
    expect(model.now() - Date.now()).toBeLessThan(-599_000);
  });

  it('is silent once it is disposed', async () => {
    await pass(0.1);
    const before = changes;
    model.dispose();
    await pass(600);
    void model.refresh();
    await pass(1);
    expect(changes).toBe(before);
  });
});

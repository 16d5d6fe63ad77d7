import { ServerConnection } from '@jupyterlab/services';
import { Fault, RestApi } from '../api';
import { report } from './fixtures';

/** A network that answers what it is told to, and remembers the requests. */
class FakeNetwork {
  status = 200;
  body: unknown = report();
  headers: Record<string, string> = {};
  down = false;
  readonly requests: { url: string; method: string; body: unknown }[] = [];

  readonly fetch = async (request: Request): Promise<Response> => {
    if (this.down) {
      throw new TypeError('Failed to fetch');
    }
    const { url, method } = request;
    const text = await request.text();
    this.requests.push({ url: url.replace(/\?.*$/, ''), method, body: text ? JSON.parse(text) : null });
    const plain = typeof this.body === 'string' ? this.body : JSON.stringify(this.body);
    return new Response(this.status === 204 ? null : plain, { status: this.status, headers: this.headers });
  };
}

function connect(): { api: RestApi; network: FakeNetwork } {
  const network = new FakeNetwork();
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost:8888/user/anna/',
    token: 't',
    fetch: network.fetch as typeof fetch,
    Request,
    Headers
  });
  return { api: new RestApi(settings), network };
}

describe('RestApi', () => {
  it('asks below the base URL, so that it works behind a hub', async () => {
    const { api, network } = connect();
    await api.report();
    expect(network.requests[0].url).toBe('http://localhost:8888/user/anna/gpu-guard/api/v1/report');
  });

  it('encodes the owner', async () => {
    const { api, network } = connect();
    network.body = { until: '2026-11-30T15:00:00Z', reason: '' };
    await api.keep('kernel:a/b c', { seconds: 3600, reason: 'demo' });
    expect(network.requests[0]).toEqual({
      url: 'http://localhost:8888/user/anna/gpu-guard/api/v1/owners/kernel%3Aa%2Fb%20c/keep',
      method: 'POST',
      body: { seconds: 3600, reason: 'demo' }
    });
  });

  it('takes a promise back with DELETE, whose answer is empty', async () => {
    const { api, network } = connect();
    network.status = 204;
    await api.stopKeeping('kernel:k1');
    expect(network.requests[0].method).toBe('DELETE');
  });

  it('shuts down with POST', async () => {
    const { api, network } = connect();
    await api.act('kernel:k1', 'shutdown');
    expect(network.requests[0].method).toBe('POST');
    expect(network.requests[0].url).toMatch(/owners\/kernel%3Ak1\/shutdown$/);
  });

  it.each(['release', 'park', 'resume'] as const)('asks for %s, and says what came of it', async act => {
    const { api, network } = connect();
    network.body = { action: act, result: 'done' };
    expect(await api.act('kernel:k1', act)).toMatchObject({ action: act, result: 'done' });
    expect(network.requests[0].url).toMatch(new RegExp(`owners/kernel%3Ak1/${act}$`));
    network.status = 202;
    expect(await api.act('kernel:k1', act)).toBeNull();
  });

  it('reads the policy in force', async () => {
    const { api, network } = connect();
    network.body = { hash: 'abc' };
    expect(await api.policy()).toMatchObject({ hash: 'abc' });
    expect(network.requests[0].url).toMatch(/api\/v1\/policy$/);
  });

  it('reads the clock of the server where it says the time', async () => {
    const { api, network } = connect();
    expect((await api.report()).serverTime).toBeNull();
    network.headers = { Date: 'Mon, 30 Nov 2026 14:18:00 GMT' };
    expect((await api.report()).serverTime).toBe(Date.parse('2026-11-30T14:18:00Z'));
  });

  it.each([
    [404, 'missing'],
    [401, 'forbidden'],
    [403, 'forbidden'],
    [424, 'unreachable'],
    [503, 'unreachable'],
    [400, 'refused'],
    [409, 'refused'],
    [500, 'refused']
  ])('takes status %d for %s, with the sentence of the server', async (status, kind) => {
    const { api, network } = connect();
    network.status = status;
    network.body = { message: 'At most 8 h can be kept at once.' };
    const fault = await api.keep('kernel:k1', { seconds: 1e9 }).catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(Fault);
    expect(fault).toMatchObject({ kind, message: 'At most 8 h can be kept at once.' });
    expect(fault).toHaveProperty('path', '/user/anna/gpu-guard/api/v1/owners/kernel%3Ak1/keep');
  });

  it("survives a proxy's page instead of JSON", async () => {
    const { api, network } = connect();
    network.status = 502;
    network.body = '<html>';
    await expect(api.health()).rejects.toMatchObject({ kind: 'unreachable' });
  });

  it('calls a dead network unreachable', async () => {
    const { api, network } = connect();
    network.down = true;
    const path = '/user/anna/gpu-guard/api/v1/explain/kernel%3Ak1';
    await expect(api.explain('kernel:k1')).rejects.toMatchObject({ kind: 'unreachable', path });
  });
});

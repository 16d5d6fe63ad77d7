import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type {
  WireEffectivePolicy,
  WireError,
  WireExplanation,
  WireHealth,
  WireKeep,
  WireOutcome,
  WireReport
} from './wire';

const BASE = 'gpu-guard/api/v1';
const UNDER_WAY = 202;

/** Why there is no answer: no server part, not allowed, nobody there, or a refusal with a sentence. */
export type FaultKind = 'missing' | 'forbidden' | 'unreachable' | 'refused';

/** A request that brought no answer. The message is for people; `path` is what was asked for, where that is known. */
export class Fault extends Error {
  constructor(
    readonly kind: FaultKind,
    message: string,
    readonly path: string | null = null
  ) {
    super(message);
  }
}

/** A report, and the server's clock when it answered (milliseconds; null: it did not say). */
export interface IReportAnswer {
  readonly report: WireReport;
  readonly serverTime: number | null;
}

/** What can be done to an owner. All but the last leave it alive. */
export type Act = 'release' | 'park' | 'resume' | 'shutdown';

/** The server's side as the front end sees it. Every call rejects with a Fault. */
export interface IApi {
  report(): Promise<IReportAnswer>;
  explain(owner: string): Promise<WireExplanation>;
  health(): Promise<WireHealth>;
  keep(owner: string, keep: WireKeep): Promise<void>;
  stopKeeping(owner: string): Promise<void>;
  /** What came of it; null: it is still under way. */
  act(owner: string, act: Act): Promise<WireOutcome | null>;
  policy(): Promise<WireEffectivePolicy>;
}

/** The only place that builds URLs: base URL, token and XSRF are ServerConnection's business. */
export class RestApi implements IApi {
  constructor(private readonly settings: ServerConnection.ISettings) {}

  async report(): Promise<IReportAnswer> {
    const response = await this.ask('report', 'GET');
    const date = Date.parse(response.headers.get('Date') ?? '');
    return { report: (await response.json()) as WireReport, serverTime: Number.isNaN(date) ? null : date };
  }

  async explain(owner: string): Promise<WireExplanation> {
    return (await (await this.ask(`explain/${encodeURIComponent(owner)}`, 'GET')).json()) as WireExplanation;
  }

  async health(): Promise<WireHealth> {
    return (await (await this.ask('health', 'GET')).json()) as WireHealth;
  }

  async keep(owner: string, keep: WireKeep): Promise<void> {
    await this.ask(`owners/${encodeURIComponent(owner)}/keep`, 'POST', keep);
  }

  async stopKeeping(owner: string): Promise<void> {
    await this.ask(`owners/${encodeURIComponent(owner)}/keep`, 'DELETE');
  }

  async act(owner: string, act: Act): Promise<WireOutcome | null> {
    const response = await this.ask(`owners/${encodeURIComponent(owner)}/${act}`, 'POST', {});
    return response.status === UNDER_WAY ? null : ((await response.json()) as WireOutcome);
  }

  async policy(): Promise<WireEffectivePolicy> {
    return (await (await this.ask('policy', 'GET')).json()) as WireEffectivePolicy;
  }

  private async ask(path: string, method: string, body?: object): Promise<Response> {
    const url = URLExt.join(this.settings.baseUrl, BASE, path);
    const init: RequestInit = body ? { method, body: JSON.stringify(body) } : { method };
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (error) {
      throw new Fault('unreachable', error instanceof Error ? error.message : String(error), pathOf(url));
    }
    if (!response.ok) {
      throw new Fault(kindOf(response.status), await sentence(response), pathOf(url));
    }
    return response;
  }
}

/** The path alone: a proxy's rules are about paths, and an address may carry what is nobody's business. */
function pathOf(url: string): string {
  return new URL(url, window.location.href).pathname;
}

function kindOf(status: number): FaultKind {
  switch (status) {
    case 404:
      return 'missing';
    case 401:
    case 403:
      return 'forbidden';
    case 424: // a hub answers so while the server behind it is stopped
    case 502:
    case 503:
    case 504:
      return 'unreachable';
    default:
      return 'refused';
  }
}

async function sentence(response: Response): Promise<string> {
  try {
    const { message } = (await response.json()) as Partial<WireError>;
    return message ?? response.statusText;
  } catch {
    return response.statusText; // not ours: a proxy's page
  }
}

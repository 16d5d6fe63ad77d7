import { type ISignal, Signal } from '@lumino/signaling';
import type { IReportAnswer } from './api';
import { SCHEMA_VERSION } from './wire';

/** The other pages of this browser on the same server: what one has asked for, all have. */
export interface IPages {
  /** A report that another page has just been given. */
  readonly received: ISignal<IPages, IReportAnswer>;
  tell(answer: IReportAnswer): void;
  dispose(): void;
}

/** Those that share a BroadcastChannel. There is no leader: whoever asks first tells the others, who then wait. */
export class Pages implements IPages {
  constructor(baseUrl: string) {
    this.channel = new BroadcastChannel(`jupyter-gpu-guard ${SCHEMA_VERSION} ${baseUrl}`);
    this.channel.onmessage = (event: MessageEvent<IReportAnswer>) => {
      this._received.emit(event.data);
    };
  }

  get received(): ISignal<this, IReportAnswer> {
    return this._received;
  }

  tell(answer: IReportAnswer): void {
    this.channel.postMessage(answer);
  }

  dispose(): void {
    this.channel.close();
    Signal.clearData(this);
  }

  private readonly channel: BroadcastChannel;
  private readonly _received = new Signal<this, IReportAnswer>(this);
}

/** Null where the browser has no such channel: then each page asks for itself. */
export function otherPages(baseUrl: string): IPages | null {
  try {
    return new Pages(baseUrl);
  } catch {
    return null;
  }
}

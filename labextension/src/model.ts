import type { Event } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { type ISignal, Signal } from '@lumino/signaling';
import { type Act, Fault, type IApi, type IReportAnswer } from './api';
import type { IPages } from './pages';
import type { IGpuGuard } from './tokens';
import {
  SCHEMA_VERSION,
  type WireEffectivePolicy,
  type WireExplanation,
  type WireHealth,
  type WireOutcome,
  type WireReport
} from './wire';

/** Our events only say "look again": the report is the one truth. */
const OUR_EVENTS = 'https://events.jupyter-gpu-guard.org/';
const UNWATCHED_SECONDS = 30;
const LONGEST_BACKOFF_SECONDS = 60;
/** Below this the two clocks agree: the Date header has whole seconds, and the way takes time too. */
const CLOCK_TOLERANCE_MS = 2000;
/** Pages that wait for the same moment would all ask at once. */
const STAGGER_MS = 500;

/** Anything that tells us of server events. */
export interface IEventStream {
  connect(slot: (sender: unknown, event: Event.Emission) => void): boolean;
  disconnect(slot: (sender: unknown, event: Event.Emission) => void): boolean;
}

/** One poll, one report, one signal for the whole page. */
export class GuardModel implements IGpuGuard {
  constructor(options: { api: IApi; pollSeconds?: number; clock?: () => number; pages?: IPages | null }) {
    this.api = options.api;
    this._pages = options.pages ?? null;
    this._pollSeconds = options.pollSeconds ?? 5;
    this._clock = options.clock ?? Date.now;
    this._poll = new Poll({
      name: 'jupyter-gpu-guard:report',
      factory: () => this.fetch(),
      frequency: this.frequency(),
      standby: 'when-hidden'
    });
    this._poll.ticked.connect(this.onTicked);
    this._pages?.received.connect(this.onReceived);
    document.addEventListener('visibilitychange', this.onVisibility);
    window.addEventListener('online', this.onVisibility);
  }

  get report(): WireReport | null {
    return this._report;
  }

  /** Why the last request brought nothing; null after a good answer. The report stays: the face shows its age. */
  get fault(): Fault | null {
    return this._fault;
  }

  /** When the report arrived, in milliseconds on the clock of `now`. */
  get receivedAt(): number | null {
    return this._receivedAt === null ? null : this._receivedAt + this._ahead;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._poll.isDisposed;
  }

  now(): number {
    return this._clock() + this._ahead;
  }

  set pollSeconds(seconds: number) {
    this._pollSeconds = seconds;
    this._poll.frequency = this.frequency();
  }

  /** Whether somebody looks at the panel. */
  set watched(watched: boolean) {
    this.watch('panel', watched);
  }

  /** Whether somebody looks at `face`. While nobody looks at any, the poll is slower; events still come at once. */
  watch(face: string, looks: boolean): void {
    const before = this._watching.size;
    if (looks) {
      this._watching.add(face);
    } else {
      this._watching.delete(face);
    }
    if (before > 0 !== this._watching.size > 0) {
      this.follow();
      if (before === 0) {
        void this.refresh();
      }
    }
  }

  /**
   * Whether `face` shows a figure, though nobody may look. Once a face has said that nothing shows, and while none
   * shows and no warning is due, no request is made: an event, or a person who comes back, ends that.
   */
  glance(face: string, shows: boolean): void {
    this._showing ??= new Set();
    if (shows) {
      this._showing.add(face);
    } else {
      this._showing.delete(face);
    }
    if (this.rests !== this._rested) {
      this.follow();
      void this._poll.schedule({ interval: this._poll.frequency.interval, phase: 'resolved' });
    }
  }

  /** Refresh whenever the server tells of one of our events. */
  listen(stream: IEventStream): void {
    this._stream?.disconnect(this.onEvent);
    this._stream = stream;
    stream.connect(this.onEvent);
  }

  async refresh(): Promise<void> {
    if (this._poll.state.phase !== 'refreshed') {
      await this._poll.refresh();
      await this._poll.tick.catch(() => undefined); // rejected only when disposed
      return;
    }
    // The request under way may have left before what we are asked to see: ask once more after it.
    this._again ??= this._poll.tick
      .catch(() => undefined)
      .then(() => {
        this._again = null;
        return this.isDisposed ? undefined : this.refresh();
      });
    await this._again;
  }

  async keep(owner: string, seconds: number, reason = ''): Promise<void> {
    await this.afterwards(this.api.keep(owner, { seconds, reason }));
  }

  async stopKeeping(owner: string): Promise<void> {
    await this.afterwards(this.api.stopKeeping(owner));
  }

  release(owner: string): Promise<WireOutcome | null> {
    return this.act(owner, 'release');
  }

  park(owner: string): Promise<WireOutcome | null> {
    return this.act(owner, 'park');
  }

  resume(owner: string): Promise<WireOutcome | null> {
    return this.act(owner, 'resume');
  }

  shutDown(owner: string): Promise<WireOutcome | null> {
    return this.act(owner, 'shutdown');
  }

  explain(owner: string): Promise<WireExplanation> {
    return this.api.explain(owner);
  }

  health(): Promise<WireHealth> {
    return this.api.health();
  }

  policy(): Promise<WireEffectivePolicy> {
    return this.api.policy();
  }

  dispose(): void {
    document.removeEventListener('visibilitychange', this.onVisibility);
    window.removeEventListener('online', this.onVisibility);
    this._stream?.disconnect(this.onEvent);
    this._pages?.dispose();
    this._poll.dispose();
    Signal.clearData(this);
  }

  private act(owner: string, act: Act): Promise<WireOutcome | null> {
    return this.afterwards(this.api.act(owner, act));
  }

  /** Whatever came of an act, look at what is now. */
  private async afterwards<T>(act: Promise<T>): Promise<T> {
    try {
      return await act;
    } finally {
      await this.refresh();
    }
  }

  private async fetch(): Promise<void> {
    const turn = ++this._asked;
    try {
      const answer = await this.api.report();
      if (turn < this._answered) {
        return; // a later request was answered first
      }
      this._answered = turn;
      this.take(answer);
      this._pages?.tell(answer);
    } catch (error) {
      if (turn >= this._answered) {
        this._answered = turn;
        this._fault = error instanceof Fault ? error : new Fault('refused', String(error));
      }
      throw error; // the poll backs off
    } finally {
      if (!this.isDisposed) {
        this._changed.emit();
      }
    }
  }

  private take({ report, serverTime }: IReportAnswer): void {
    if (report.schema_version !== SCHEMA_VERSION) {
      throw new Fault('refused', `schema_version ${report.schema_version}, expected ${SCHEMA_VERSION}`);
    }
    const ahead = serverTime === null ? 0 : serverTime - this._clock();
    this._ahead = Math.abs(ahead) < CLOCK_TOLERANCE_MS ? 0 : ahead;
    this._report = report;
    this._receivedAt = this._clock();
    this._fault = null;
    this.follow();
  }

  private get rests(): boolean {
    return this.rest() !== null;
  }

  /** For so many seconds nothing shows and no warning is due: until shortly before a deadline, or for ever. */
  private rest(): number | null {
    if (this._watching.size > 0 || this._showing === null || this._showing.size > 0 || this._report === null) {
      return null;
    }
    const { notices, holders } = this._report;
    const due = holders.map(({ verdict }) => (verdict.deadline === null ? Infinity : Date.parse(verdict.deadline)));
    const seconds = (Math.min(Infinity, ...due) - this.now()) / 1000 - 2 * UNWATCHED_SECONDS;
    return notices.length > 0 || seconds < UNWATCHED_SECONDS ? null : seconds;
  }

  private follow(): void {
    this._rested = this.rests;
    this._poll.frequency = this.frequency();
  }

  private frequency(): { interval: number; max: number; backoff: boolean } {
    const rest = this.rest();
    if (rest !== null) {
      const interval = rest * 1000 < Poll.MAX_INTERVAL ? rest * 1000 : Poll.NEVER;
      return { interval, max: Poll.NEVER, backoff: false };
    }
    const slow = Math.max(UNWATCHED_SECONDS, this._pollSeconds);
    const seconds = this._watching.size > 0 ? this._pollSeconds : slow;
    return { interval: seconds * 1000, max: Math.max(LONGEST_BACKOFF_SECONDS, seconds) * 1000, backoff: true };
  }

  /** With no server part, or no permission, asking again changes nothing: wait for a person. */
  private readonly onTicked = (): void => {
    const hopeless = this._fault?.kind === 'missing' || this._fault?.kind === 'forbidden';
    if (this._poll.state.phase === 'rejected' && hopeless) {
      void this._poll.stop();
    }
  };

  /** Another page has asked: that will do for this one too, until the next turn. A hidden page need not draw it. */
  private readonly onReceived = (_: IPages, answer: IReportAnswer): void => {
    if (document.hidden) {
      return;
    }
    const { interval } = this._poll.frequency;
    if (interval !== Poll.NEVER) {
      void this._poll.schedule({
        interval: interval + Math.random() * STAGGER_MS,
        phase: 'resolved',
        cancel: ({ phase }) => phase === 'refreshed'
      });
    }
    // Of the same look, what this page was told itself may be newer: it knows of what was done here.
    if ((answer.report.taken_at ?? '') > (this._report?.taken_at ?? '')) {
      this.take(answer);
      this._changed.emit();
    }
  };

  private readonly onEvent = (_: unknown, event: Event.Emission): void => {
    if (event.schema_id.startsWith(OUR_EVENTS)) {
      void this.refresh();
    }
  };

  /** A person is back, or the network is. */
  private readonly onVisibility = (): void => {
    if (!document.hidden) {
      void this.refresh();
    }
  };

  private readonly api: IApi;
  private readonly _poll: Poll;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _clock: () => number;
  private _again: Promise<void> | null = null;
  private _stream: IEventStream | null = null;
  private _report: WireReport | null = null;
  private _fault: Fault | null = null;
  private _receivedAt: number | null = null;
  private _ahead = 0;
  private _asked = 0;
  private _answered = 0;
  private _pollSeconds: number;
  private readonly _pages: IPages | null;
  private readonly _watching = new Set<string>();
  private _showing: Set<string> | null = null;
  private _rested = false;
}

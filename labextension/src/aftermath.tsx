import type { DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import { ReactWidget } from '@jupyterlab/ui-components';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import React from 'react';
import type { INotifier } from './actions';
import { bytes, moment, shorten } from './format';
import type { ILanguage } from './language';
import { titleOf } from './rows';
import type { Seen } from './seen';
import type { IGpuGuard } from './tokens';
import { personText, reasonText } from './words';
import type { WireOutcome, WireReason, WireReport } from './wire';

/** JupyterLab cuts what is longer. */
const LONGEST_MESSAGE = 140;
/** More at once than this come as one notification. */
const SINGLE_TOASTS = 3;

/**
 * Says in the notebook what was done to its kernel, and why. It only looks and writes: nothing here touches a session,
 * so an open notebook stays without a kernel until its person chooses one.
 */
export class Aftermath implements DocumentRegistry.IWidgetExtension<DocumentWidget, DocumentRegistry.IModel> {
  constructor(
    private readonly guard: IGpuGuard,
    /** What a person has put away. */
    private readonly seen: Seen,
    /** What this browser has been told by a notification. */
    private readonly told: Seen,
    private readonly notifier: INotifier,
    private readonly language: ILanguage,
    private readonly show: () => void
  ) {
    guard.changed.connect(() => {
      this.update();
    });
  }

  /** Called for every notebook that is opened. */
  createNew(widget: DocumentWidget, context: DocumentRegistry.IContext<DocumentRegistry.IModel>): IDisposable {
    const place: IPlace = { widget, path: () => context.localPath, banner: null };
    this.places.add(place);
    this.update();
    return new DisposableDelegate(() => {
      this.places.delete(place);
    });
  }

  /** Bring banners and notifications in line with the report. */
  update(): void {
    const report = this.guard.report;
    if (report === null) {
      return;
    }
    for (const place of this.places) {
      this.post(place, lastEnd(report, place.path()));
    }
    this.announce(report);
  }

  private post(place: IPlace, outcome: WireOutcome | null): void {
    const wanted = outcome !== null && !this.seen.has(outcome.id) ? outcome : null;
    if (place.banner?.outcome.id === wanted?.id) {
      return;
    }
    place.banner?.dispose();
    place.banner = null;
    if (wanted !== null) {
      const banner = new Banner(wanted, this.guard.now(), this.language, this.show, () => {
        this.putAway(wanted);
      });
      place.banner = banner;
      place.widget.contentHeader.addWidget(banner);
    }
  }

  /** With the latest, the earlier ones of the same notebook are put away too. */
  private putAway(outcome: WireOutcome): void {
    const ends = (this.guard.report?.outcomes ?? []).filter(
      other => isEnd(other) && other.notebook === outcome.notebook
    );
    this.seen.add(outcome.id, ...ends.map(other => other.id));
    this.update();
  }

  private announce(report: WireReport): void {
    const { trans } = this.language;
    const fresh = report.outcomes.filter(
      // Who pressed the button knows; the banner tells the others.
      outcome => isEnd(outcome) && outcome.by === null && !this.told.has(outcome.id) && !this.seen.has(outcome.id)
    );
    if (fresh.length === 0) {
      return;
    }
    this.told.add(...fresh.map(outcome => outcome.id));
    const options = { autoClose: false as const, actions: [{ label: trans.__('Show'), callback: this.show }] };
    if (fresh.length > SINGLE_TOASTS) {
      this.notifier.warning(trans._n('%1 kernel was shut down.', '%1 kernels were shut down.', fresh.length), options);
    } else {
      for (const outcome of fresh) {
        const text = `${endText(outcome, this.guard.now(), this.language)} ${freedText(outcome, this.language)}`;
        this.notifier.warning(shorten(text, LONGEST_MESSAGE), options);
      }
    }
  }

  private readonly places = new Set<IPlace>();
}

interface IPlace {
  readonly widget: DocumentWidget;
  readonly path: () => string;
  banner: Banner | null;
}

function isEnd(outcome: WireOutcome): boolean {
  return outcome.action === 'shutdown' && outcome.result === 'done';
}

/** The latest time the kernel of the notebook at `path` was shut down. */
export function lastEnd(report: WireReport, path: string): WireOutcome | null {
  return report.outcomes
    .filter(outcome => isEnd(outcome) && outcome.notebook === path)
    .reduce<WireOutcome | null>(
      (latest, outcome) => (latest === null || Date.parse(outcome.at) > Date.parse(latest.at) ? outcome : latest),
      null
    );
}

/** What happened, when, by which rule or whom. */
export function endText(outcome: WireOutcome, now: number, language: ILanguage): string {
  const { trans } = language;
  const when = moment(outcome.at, now, language);
  const name = shorten(titleOf(outcome), 48);
  return outcome.by === null
    ? trans.__('The kernel of %1 was shut down at %2 by rule %3.', name, when, outcome.rule)
    : trans.__('The kernel of %1 was shut down at %2 at the request of %3.', name, when, personText(outcome.by, trans));
}

/** What became of the memory. */
export function freedText(outcome: WireOutcome, { trans }: ILanguage): string {
  if (outcome.survivors.length > 0) {
    return trans.__('Not all of its memory is free yet: process %1 still holds some.', outcome.survivors.join(', '));
  }
  return outcome.freed_bytes === null
    ? trans.__('How much memory this freed is not known.')
    : trans.__('GPU memory freed: %1.', bytes(outcome.freed_bytes));
}

class Banner extends ReactWidget {
  constructor(
    readonly outcome: WireOutcome,
    private readonly now: number,
    private readonly language: ILanguage,
    private readonly onShow: () => void,
    private readonly putAway: () => void
  ) {
    super();
    this.addClass('jp-GpuGuard-Banner');
    this.node.dataset.testid = 'gpu-guard-banner';
    this.node.setAttribute('role', 'status');
  }

  /** Why, on which readings. Who asked for it is said in the headline. */
  private get evidence(): WireReason[] {
    return this.outcome.reasons.filter(reason => reason.code !== 'asked');
  }

  protected render(): React.JSX.Element {
    const { trans } = this.language;
    return (
      <Measured
        onResize={height => {
          this.makeRoom(height);
        }}
      >
        <div className="jp-GpuGuard-BannerText">
          <strong>{endText(this.outcome, this.now, this.language)}</strong>
          <p>
            {this.evidence.map(reason => reasonText(reason, this.now, this.language)).join(' ')}{' '}
            {freedText(this.outcome, this.language)}
          </p>
          <p>
            {trans.__(
              'Its variables are gone; the notebook and its outputs are as they were. Choose a kernel to go on.'
            )}
          </p>
        </div>
        <div className="jp-GpuGuard-Actions">
          <button type="button" className="jp-GpuGuard-Button" onClick={this.onShow}>
            {trans.__('Show')}
          </button>
          <button type="button" className="jp-GpuGuard-Button" onClick={this.putAway}>
            {trans.__('Dismiss')}
          </button>
        </div>
      </Measured>
    );
  }

  /** The header above a notebook gives no room to what does not ask for it. */
  private makeRoom(height: number): void {
    this.node.style.minHeight = `${Math.ceil(height)}px`;
    if (this.parent) {
      MessageLoop.postMessage(this.parent, Widget.Msg.FitRequest);
    }
  }
}

function Measured(props: { onResize: (height: number) => void; children: React.ReactNode }): React.JSX.Element {
  const node = React.useRef<HTMLDivElement>(null);
  const { onResize } = props;
  React.useEffect(() => {
    const element = node.current;
    if (element === null) {
      return;
    }
    const observer = new ResizeObserver(() => {
      onResize(element.offsetHeight);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, []);
  return (
    <div className="jp-GpuGuard-BannerInner" ref={node}>
      {props.children}
    </div>
  );
}

import type { DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import type { INotifier } from './actions';
import { Banner } from './components/Banner';
import { endText, freedText, isEnd, lastEnd } from './endings';
import { shorten } from './format';
import { ownerOf } from './target';
import type { ILanguage } from './language';
import { isKernel, titleOf } from './owners';
import type { Seen } from './seen';
import type { IGpuGuard } from './tokens';
import { labelled } from './words';
import type { WireOutcome, WireReport } from './wire';

/** JupyterLab cuts what is longer. */
const LONGEST_MESSAGE = 140;
const LONGEST_NAME = 40;
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
    /** Brings what was done into sight, by the id of its outcome. */
    private readonly show: (outcome: string) => void
  ) {
    guard.changed.connect(() => {
      this.update();
    });
  }

  /** Called for every notebook that is opened. */
  createNew(widget: DocumentWidget, context: DocumentRegistry.IContext<DocumentRegistry.IModel>): IDisposable {
    const place: IPlace = {
      widget,
      path: () => context.localPath,
      ready: () => context.sessionContext.isReady,
      banner: null,
      without: false
    };
    const follow = (): void => {
      this.update();
    };
    this.places.add(place);
    context.sessionContext.kernelChanged.connect(follow);
    this.update();
    return new DisposableDelegate(() => {
      context.sessionContext.kernelChanged.disconnect(follow);
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
      this.post(place, lastEnd(report, place.path()), report.simulated);
    }
    this.announce(report);
    this.announceParked(report);
  }

  private post(place: IPlace, outcome: WireOutcome | null, simulated: boolean): void {
    const wanted = outcome !== null && !this.seen.has(outcome.id) ? outcome : null;
    const owner = ownerOf(place.widget);
    const goesOn = owner !== null && owner !== outcome?.owner;
    if (place.banner?.outcome.id === wanted?.id) {
      if (goesOn && place.banner !== null && place.without) {
        this.putAway(place.banner.outcome); // whoever chose a kernel below the banner has read it
      } else {
        place.banner?.say(goesOn);
        place.without ||= place.banner !== null && !goesOn && place.ready();
      }
      return;
    }
    place.banner?.dispose();
    place.banner = null;
    place.without = wanted !== null && !goesOn && place.ready();
    if (wanted !== null) {
      const banner = new Banner(
        wanted,
        simulated,
        this.guard.now(),
        this.language,
        () => {
          this.show(wanted.id);
        },
        () => {
          this.putAway(wanted);
        }
      );
      banner.say(goesOn);
      place.banner = banner;
      place.widget.contentHeader.addWidget(banner);
    }
  }

  /** With the latest, the earlier ones of the same notebook are put away too. */
  private putAway(outcome: WireOutcome): void {
    const ends = (this.guard.report?.outcomes ?? []).filter(
      other => isEnd(other) && isKernel(other) && other.notebook === outcome.notebook
    );
    this.seen.add(outcome.id, ...ends.map(other => other.id));
    this.update();
  }

  /** What a rule has parked: it lives on, and whoever runs a cell should not wonder. */
  private announceParked(report: WireReport): void {
    const { trans } = this.language;
    for (const outcome of report.outcomes) {
      if (outcome.action === 'park' && outcome.result === 'done' && outcome.by === null && !this.told.has(outcome.id)) {
        this.told.add(outcome.id);
        const name = shorten(titleOf(outcome), LONGEST_NAME);
        const text = trans.__(
          '%1 was moved to the memory of the host by rule %2. It comes back when a cell runs.',
          name,
          outcome.rule
        );
        this.notifier.success(shorten(labelled(text, report.simulated, trans), LONGEST_MESSAGE), { autoClose: 12000 });
      }
    }
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
    const tell = (text: string, { id }: WireOutcome): void => {
      const actions = [
        {
          label: trans.__('Show'),
          callback: () => {
            this.show(id);
          }
        }
      ];
      const message = shorten(labelled(text, report.simulated, trans), LONGEST_MESSAGE);
      this.notifier.warning(message, { autoClose: false, actions });
    };
    if (fresh.length > SINGLE_TOASTS) {
      tell(
        fresh.every(isKernel)
          ? trans._n('%1 kernel was shut down.', '%1 kernels were shut down.', fresh.length)
          : trans.__('%1 kernels, terminals and TensorBoards were shut down.', fresh.length),
        fresh[fresh.length - 1]
      );
    } else {
      for (const outcome of fresh) {
        tell(
          `${endText(outcome, this.guard.now(), this.language)} ${freedText(outcome, this.language)}`.trim(),
          outcome
        );
      }
    }
  }

  private readonly places = new Set<IPlace>();
}

interface IPlace {
  readonly widget: DocumentWidget;
  readonly path: () => string;
  /** Whether it has the kernel that it is going to have: one that is opened may get one at once. */
  readonly ready: () => boolean;
  banner: Banner | null;
  /** Whether the banner has stood there without a kernel: the one that comes then was chosen below it. */
  without: boolean;
}

import type { GuardActions, INotifier } from './actions';
import { bytes, duration, moment, secondsUntil, shorten } from './format';
import type { ILanguage } from './language';
import { titleOf } from './owners';
import { about } from './readings';
import type { IGpuGuard } from './tokens';
import { labelled } from './words';
import type { WireNotice } from './wire';

/** JupyterLab cuts what is longer. */
const LONGEST_MESSAGE = 140;
const LONGEST_NAME = 48;
const HOUR = 3600;
const HINT_MS = 15000;

/** What has to be said with every figure of a notice. */
interface IMarks {
  readonly simulated?: boolean;
  readonly estimated?: boolean;
}

interface IShown {
  readonly toast: string;
  readonly message: string;
}

/** One JupyterLab notification for each warning that stands, once per page, gone with the warning. */
export class NoticeBoard {
  constructor(
    private readonly guard: IGpuGuard,
    private readonly notifier: INotifier,
    private readonly actions: GuardActions,
    private readonly language: ILanguage,
    private readonly show: (owner: string) => void,
    /** Whether the toast is on the screen: an update would bring a closed one back. */
    private readonly onScreen: (toast: string) => boolean = toast => document.getElementById(toast) !== null
  ) {
    guard.changed.connect(this.update);
    this.update();
  }

  /** Bring the notifications in line with the report. Without a report nothing changes. */
  readonly update = (): void => {
    const report = this.guard.report;
    if (report === null) {
      return;
    }
    const standing = new Map(report.notices.map(notice => [notice.id, notice]));
    for (const [id, { toast }] of this.shown) {
      if (!standing.has(id)) {
        this.notifier.dismiss(toast);
        this.shown.delete(id);
      }
    }
    const inferred = new Set(report.holders.filter(holder => holder.estimated).map(holder => holder.owner));
    for (const notice of standing.values()) {
      this.present(notice, { simulated: report.simulated, estimated: inferred.has(notice.owner) });
    }
  };

  dispose(): void {
    this.guard.changed.disconnect(this.update);
  }

  private present(notice: WireNotice, marks: IMarks): void {
    const message = noticeText(notice, this.guard.now(), this.language, marks);
    const shown = this.shown.get(notice.id);
    if (shown === undefined) {
      // A hint may go by itself; what announces a loss stays until it is answered.
      const autoClose = notice.deadline === null && notice.undelivered !== true ? HINT_MS : false;
      const toast = this.notifier.warning(message, { autoClose, actions: this.offers(notice) });
      this.shown.set(notice.id, { toast, message });
    } else if (shown.message !== message && this.onScreen(shown.toast)) {
      // A person who dismissed it has seen it: `update` then finds nothing, and that is right.
      this.notifier.update({ id: shown.toast, message, autoClose: false, actions: this.offers(notice) });
      this.shown.set(notice.id, { toast: shown.toast, message });
    }
  }

  private offers(notice: WireNotice): { label: string; callback: () => void; displayType?: 'accent' }[] {
    const { trans } = this.language;
    const about = { owner: notice.owner, title: titleOf(notice) };
    const seconds = oneHourOrLess(notice.longest_keep_seconds);
    const show = {
      label: trans.__('Show'),
      callback: () => {
        this.show(notice.owner);
      }
    };
    if (seconds === null) {
      return [show];
    }
    const keep = {
      label: trans.__('Keep %1', duration(seconds, trans)),
      displayType: 'accent' as const,
      callback: () => {
        void this.actions.keep(about, seconds);
      }
    };
    return [keep, show];
  }

  private readonly shown = new Map<string, IShown>();
}

/** Who, how much, and how long there is still. The minutes are whole, so that the text rarely changes. */
export function noticeText(notice: WireNotice, now: number, language: ILanguage, marks: IMarks = {}): string {
  const { trans } = language;
  const label = (text: string): string => labelled(text, marks.simulated === true, trans);
  const name = shorten(titleOf(notice), LONGEST_NAME - label('').length);
  const size = bytes(notice.memory_bytes);
  const matter = notice.reasons.some(reason => reason.code === 'unwatched')
    ? trans.__('Nobody looks at %1.', name)
    : trans.__('%1 holds %2 GPU memory without compute.', name, marks.estimated ? about(size) : size);
  return shorten(label(trans.__('%1 %2', matter, prospect(notice, now, language))), LONGEST_MESSAGE);
}

function prospect(notice: WireNotice, now: number, language: ILanguage): string {
  const { trans } = language;
  if (notice.deadline === null && notice.undelivered === true) {
    return trans.__('It is to be shut down, once somebody has been told.');
  }
  if (notice.deadline === null) {
    return trans.__('Nothing is ended by itself.');
  }
  const left = secondsUntil(notice.deadline, now);
  return left < 60
    ? trans.__('It is shut down in less than a minute.')
    : trans.__(
        'It is shut down in %1, at %2.',
        trans.__('%1 min', Math.floor(left / 60)),
        moment(notice.deadline, now, language)
      );
}

function oneHourOrLess(longestSeconds: number): number | null {
  return longestSeconds >= HOUR ? HOUR : longestSeconds > 0 ? Math.floor(longestSeconds) : null;
}

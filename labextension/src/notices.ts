import type { GuardActions, INotifier } from './actions';
import { bytes, duration, moment, secondsUntil, shorten } from './format';
import type { ILanguage } from './language';
import { titleOf } from './rows';
import type { IGpuGuard } from './tokens';
import { labelled } from './words';
import type { WireNotice } from './wire';

/** JupyterLab cuts what is longer. */
const LONGEST_MESSAGE = 140;
const LONGEST_NAME = 48;
const HOUR = 3600;
const HINT_MS = 15000;

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
    for (const notice of standing.values()) {
      this.present(notice, report.simulated);
    }
  };

  dispose(): void {
    this.guard.changed.disconnect(this.update);
  }

  private present(notice: WireNotice, simulated: boolean): void {
    const message = noticeText(notice, this.guard.now(), this.language, simulated);
    const shown = this.shown.get(notice.id);
    if (shown === undefined) {
      // A hint may go by itself; what announces a loss stays until it is answered.
      const autoClose = notice.deadline === null ? HINT_MS : false;
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

/** Which notebook, how much, and how long there is still. The minutes are whole, so that the text rarely changes. */
export function noticeText(notice: WireNotice, now: number, language: ILanguage, simulated: boolean): string {
  const { trans } = language;
  const label = (text: string): string => labelled(text, simulated, trans);
  const name = shorten(titleOf(notice), LONGEST_NAME - label('').length);
  const size = bytes(notice.memory_bytes);
  if (notice.deadline === null) {
    return label(trans.__('%1 holds %2 GPU memory without compute. Nothing is ended by itself.', name, size));
  }
  const left = secondsUntil(notice.deadline, now);
  const when = moment(notice.deadline, now, language);
  const text =
    left < 60
      ? trans.__('%1 holds %2 GPU memory without compute. It is shut down in less than a minute.', name, size)
      : trans.__(
          '%1 holds %2 GPU memory without compute. It is shut down in %3, at %4.',
          name,
          size,
          trans.__('%1 min', Math.floor(left / 60)),
          when
        );
  return shorten(label(text), LONGEST_MESSAGE);
}

function oneHourOrLess(longestSeconds: number): number | null {
  return longestSeconds >= HOUR ? HOUR : longestSeconds > 0 ? Math.floor(longestSeconds) : null;
}

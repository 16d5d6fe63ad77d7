import type { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { type ISignal, Signal } from '@lumino/signaling';
import type { GuardActions } from './actions';
import { bytes } from './format';
import { guardIcon } from './icons';
import type { ILanguage } from './language';
import { holdsSomething, titleOf } from './owners';
import { marked, reading } from './readings';
import { rowOf } from './target';
import type { IGpuGuard } from './tokens';
import { labelled } from './words';
import type { WireHolder } from './wire';

/** What the section does when it is clicked. */
export interface IRunningDoors {
  readonly actions: GuardActions;
  readonly show: (owner: string) => void;
  readonly refresh: () => void;
}

/** The section "On the GPU" among what runs: who holds GPU memory, the largest first. */
export class RunningOnGpu implements IRunningSessions.IManager {
  constructor(
    private readonly guard: IGpuGuard,
    private readonly doors: IRunningDoors,
    private readonly language: ILanguage
  ) {
    const { trans } = language;
    this.name = trans.__('On the GPU');
    this.shutdownLabel = trans.__('Shut Down');
    this.shutdownAllLabel = trans.__('Shut Down All');
    this.shutdownAllConfirmationText = trans.__(
      'Shut down everything that holds GPU memory? All variables and everything that is still running are lost.'
    );
    guard.changed.connect(() => {
      const now = JSON.stringify(this.lines().map(line => [line.owner, line.label, line.detail]));
      if (now !== this.drawn) {
        this.drawn = now;
        this.changes.emit();
      }
    });
  }

  /** Emitted when there is something new to draw. */
  get runningChanged(): ISignal<this, void> {
    return this.changes;
  }

  running(): IRunningSessions.IRunningItem[] {
    return this.lines().map(({ owner, label, title, detail }) => ({
      context: owner,
      className: 'jp-GpuGuard-Running',
      icon: () => guardIcon,
      label: () => label,
      labelTitle: () => `${title}\n${detail}`,
      detail: () => detail,
      open: () => {
        this.doors.show(owner);
      },
      shutdown: () => {
        const row = rowOf(owner, this.guard, this.language);
        if (row !== null) {
          void this.doors.actions.shutDown(row);
        }
      }
    }));
  }

  refreshRunning(): void {
    this.doors.refresh();
  }

  /** JupyterLab has asked before. What refuses stays in the list, where its row tells why. */
  shutdownAll(): void {
    for (const { owner } of this.holders().filter(holder => holder.offers?.includes('shutdown'))) {
      this.guard.shutDown(owner).catch((error: unknown) => {
        console.warn(`jupyter-gpu-guard: ${owner} was not shut down.`, error);
      });
    }
  }

  private holders(): WireHolder[] {
    const { report } = this.guard;
    return report === null
      ? []
      : report.holders
          .filter(holder => holdsSomething(holder, report))
          .sort((a, b) => (b.memory_bytes ?? Infinity) - (a.memory_bytes ?? Infinity) || 0);
  }

  /** By the file's name, as JupyterLab does: there is little room. By its path where others are called the same. */
  private lines(): { owner: string; label: string; title: string; detail: string }[] {
    const { trans } = this.language;
    const simulated = this.guard.report?.simulated === true;
    const holders = this.holders();
    const names = holders.map(titleOf);
    return holders.map((holder, index) => {
      const known = reading(holder.memory_bytes, holder.memory_bytes_unknown, bytes, trans);
      const title = (holder.kind === 'kernel' ? holder.notebook : null) ?? holder.name;
      return {
        owner: holder.owner,
        label: names.filter(name => name === names[index]).length > 1 ? title : names[index],
        title,
        detail: labelled(marked(known, holder.estimated === true, trans).text, simulated, trans)
      };
    });
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownAllConfirmationText: string;
  private readonly changes = new Signal<this, void>(this);
  private drawn = '';
}

/** Add the section where the application has such a list. */
export function addRunning(
  managers: IRunningSessionManagers | null,
  guard: IGpuGuard,
  doors: IRunningDoors,
  language: ILanguage
): void {
  managers?.add(new RunningOnGpu(guard, doors, language));
}

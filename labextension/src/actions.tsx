import { Dialog, InputDialog, type Notification, showDialog } from '@jupyterlab/apputils';
import React from 'react';
import { Fault } from './api';
import { detailText } from './endings';
import { duration } from './format';
import type { ILanguage } from './language';
import { PolicyPage } from './components/PolicyPage';
import { policyText } from './policies';
import { cameText, failureOf, type Remedy } from './remedies';
import type { IRow } from './rows';
import type { IGpuGuard } from './tokens';
import type { WireEffectivePolicy } from './wire';

/** The part of JupyterLab's Notification that we use. */
export interface INotifier {
  success(message: string, options?: Notification.IOptions<never>): string;
  warning(message: string, options?: Notification.IOptions<never>): string;
  error(message: string, options?: Notification.IOptions<never>): string;
  update(change: Notification.IUpdate<never>): boolean;
  dismiss(id: string): void;
}

/** Whom an act is about, and how a person calls it. */
export interface IAbout {
  readonly owner: string;
  readonly title: string;
}

/** What a person may do, with the questions before and the words after it. */
export class GuardActions {
  constructor(
    private readonly guard: IGpuGuard,
    private readonly notifier: INotifier,
    private readonly language: ILanguage
  ) {}

  async keep(about: IAbout, seconds: number): Promise<void> {
    const { trans } = this.language;
    const reason = await this.reasonFor(about);
    if (reason === null) {
      return;
    }
    await this.attempt(
      this.guard.keep(about.owner, seconds, reason),
      trans.__('Could not keep %1', about.title),
      () => {
        this.notifier.success(trans.__('%1 is kept for %2.', about.title, duration(seconds, trans)), {
          autoClose: 3000
        });
      }
    );
  }

  async stopKeeping(about: IAbout): Promise<void> {
    const { trans } = this.language;
    await this.attempt(this.guard.stopKeeping(about.owner), trans.__('Could not stop keeping %1', about.title));
  }

  /** Nothing is lost by it, so it is done at once. Says what came of it. */
  async remedy(about: IAbout, remedy: Remedy): Promise<void> {
    const { trans } = this.language;
    await this.attempt(this.guard[remedy](about.owner), failureOf(remedy, about.title, trans), outcome => {
      if (outcome === null) {
        return; // it takes longer: the report will tell
      }
      const text = cameText(outcome, detailText(outcome, this.guard.now(), this.language), this.language);
      if (outcome.result === 'done') {
        this.notifier.success(text, { autoClose: 5000 });
      } else {
        this.notifier.warning(text, { autoClose: 12000 });
      }
    });
  }

  /** Ask first: this is the one button that loses something. */
  async shutDown(row: Pick<IRow, 'owner' | 'title' | 'kind' | 'memory' | 'losses'>): Promise<void> {
    const { trans } = this.language;
    const stops = row.kind !== 'kernel';
    const answer = await showDialog({
      title: stops ? trans.__('Stop %1?', row.title) : trans.__('Shut down %1?', row.title),
      body: (
        <div>
          {row.losses.map(loss => (
            <p key={loss}>{loss}</p>
          ))}
          {row.memory !== null && <p>{trans.__('GPU memory given back: %1', row.memory.text)}</p>}
        </div>
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: stops ? trans.__('Stop') : trans.__('Shut Down') })
      ],
      defaultButton: 0
    });
    if (answer.button.accept) {
      const failure = trans.__('Could not shut down %1', row.title);
      await this.attempt(this.guard.shutDown(row.owner), failure, outcome => {
        if (outcome?.result === 'failed') {
          throw new Error(detailText(outcome, this.guard.now(), this.language));
        }
      });
    }
  }

  /** Show the policy in force, to be read. */
  async showPolicy(asked: Promise<WireEffectivePolicy>): Promise<void> {
    const { trans } = this.language;
    const read = asked.catch((error: unknown) => {
      throw error instanceof Fault && error.kind === 'unreachable'
        ? new Error(trans.__('The server does not answer.'))
        : error;
    });
    await this.attempt(read, trans.__('The policy could not be read'), policy => {
      void showDialog({
        title: trans.__('Policy in force'),
        body: <PolicyPage policy={policyText(policy, this.guard.now(), this.language)} trans={trans} />,
        buttons: [Dialog.okButton({ label: trans.__('Close') })]
      });
    });
  }

  /** What it is kept for, where the rule wants to know; null: the person thought better of it. */
  private async reasonFor(about: IAbout): Promise<string | null> {
    const { trans } = this.language;
    const holder = this.guard.report?.holders.find(({ owner }) => owner === about.owner);
    if (holder?.keep_needs_reason !== true) {
      return '';
    }
    const answer = await InputDialog.getText({
      title: trans.__('Keep %1', about.title),
      label: trans.__('What is it needed for? Its rule wants a reason.'),
      okLabel: trans.__('Keep'),
      cancelLabel: trans.__('Cancel'),
      required: true
    });
    const reason = answer.value?.trim() ?? '';
    return answer.button.accept && reason !== '' ? reason : null;
  }

  private async attempt<T>(act: Promise<T>, failure: string, done?: (came: T) => void): Promise<void> {
    try {
      const came = await act;
      done?.(came);
    } catch (error) {
      this.notifier.error(this.language.trans.__('%1: %2', failure, this.whyOf(error)), { autoClose: 8000 });
    }
  }

  /** A refusal has a sentence of the server's; of a request that got lost, only the browser's is known. */
  private whyOf(error: unknown): string {
    const { trans } = this.language;
    if (error instanceof Fault && error.kind === 'unreachable') {
      return navigator.onLine
        ? trans.__('The server does not answer; whether it was done shows once it does.')
        : trans.__('The server cannot be reached; nothing was done.');
    }
    return error instanceof Error ? error.message : String(error);
  }
}

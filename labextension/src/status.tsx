import { TextItem } from '@jupyterlab/statusbar';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { type ISignal, Signal } from '@lumino/signaling';
import React from 'react';
import type { ILanguage } from './language';
import type { GuardModel } from './model';
import { summaryOf } from './view';

/** `GPU 6.0 GiB` in the status bar: what my notebooks hold. A click opens the sidebar. */
export class GuardStatus extends ReactWidget {
  constructor(
    private readonly guard: GuardModel,
    private readonly language: ILanguage,
    private readonly onClick: () => void
  ) {
    super();
    this.addClass('jp-GpuGuard-Status');
    this.node.dataset.testid = 'gpu-guard-status';
    guard.changed.connect(() => {
      this.follow();
    });
  }

  set wanted(wanted: boolean) {
    this._wanted = wanted;
    this.follow();
  }

  /** Whether there is something to say, and a person who wants it. */
  readonly isActive = (): boolean => this._wanted && (this.guard.report?.devices.length ?? 0) > 0;

  get activeStateChanged(): ISignal<this, void> {
    return this.activeChanged;
  }

  private follow(): void {
    this.guard.glance('status', this.isAttached && this.isActive());
    this.activeChanged.emit();
  }

  protected render(): React.JSX.Element {
    return <UseSignal signal={this.guard.changed}>{() => this.draw()}</UseSignal>;
  }

  private draw(): React.JSX.Element {
    const { report } = this.guard;
    if (report === null) {
      return <></>;
    }
    const { text, title } = summaryOf(report, this.guard.now(), this.language);
    return (
      <TextItem
        role="button"
        tabIndex={0}
        source={text}
        title={title}
        data-warned={report.notices.length > 0}
        onClick={this.onClick}
        onKeyDown={event => {
          if (event.key === 'Enter' || event.key === ' ') {
            this.onClick();
          }
        }}
      />
    );
  }

  private readonly activeChanged = new Signal<this, void>(this);
  private _wanted = true;
}

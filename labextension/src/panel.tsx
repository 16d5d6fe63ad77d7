import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import React from 'react';
import type { GuardActions } from './actions';
import { Arrangements, type IArrangement } from './arrange';
import { Absence, AskedFor, headline } from './components/Absence';
import { Body } from './components/Body';
import { Card } from './components/Card';
import type { IRowDoors } from './components/RowActions';
import { FirstReading } from './components/FirstReading';
import { duration } from './format';
import { guardIcon } from './icons';
import type { ILanguage } from './language';
import type { GuardModel } from './model';
import { Order } from './order';
import { passedOverTexts } from './policies';
import { type IPanelView, viewOf } from './view';
import { argumentTexts, problemTexts } from './why';

/** The sidebar. It draws what the model has, and tells the model whether somebody looks. */
export class GuardPanel extends ReactWidget {
  constructor(
    private readonly model: GuardModel,
    actions: GuardActions,
    open: (path: string) => Promise<unknown>,
    private readonly language: ILanguage,
    private readonly more: {
      /** Where this browser remembers how the rows are arranged. */
      readonly storage?: Pick<Storage, 'getItem' | 'setItem'>;
      /** Opens the plots of the last hour. */
      readonly history?: () => unknown;
    } = {}
  ) {
    super();
    this.arrangements = new Arrangements(more.storage ?? window.localStorage);
    this.arrangement = this.arrangements.read();
    this.doors = {
      open: path => void open(path),
      keep: (row, seconds) => actions.keep(row, seconds),
      stopKeeping: row => actions.stopKeeping(row),
      remedy: (row, remedy) => actions.remedy(row, remedy),
      shutDown: row => actions.shutDown(row),
      fold: owner => {
        if (!this.unfolded.delete(owner)) {
          this.unfolded.add(owner);
        }
        this.update();
      },
      choosing: open => {
        this.order.choosing = open;
        this.update();
      },
      explain: async owner => {
        const told = await model.explain(owner);
        return {
          lines: argumentTexts(told, model.now(), language),
          passedOver: passedOverTexts(told.passed_over ?? [], language)
        };
      },
      showPolicy: () => void actions.showPolicy(model.policy())
    };
    const { trans } = language;
    this.id = 'jupyter-gpu-guard';
    this.addClass('jp-GpuGuard-Panel');
    this.node.dataset.testid = 'gpu-guard-panel';
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('GPU Guard'));
    this.title.icon = guardIcon;
    this.title.caption = trans.__('GPU Guard: who holds which GPU');
  }

  /** Bring the row of `owner` into sight, unfolded; or, by the id of an outcome, what was done. */
  reveal(owner: string): void {
    this.unfolded.add(owner);
    this.revealed = { owner, turn: (this.revealed?.turn ?? 0) + 1 };
    this.update();
  }

  /** By a command or the keyboard a person comes here to go on with the keyboard. */
  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.model.watched = true;
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.order.pointed = false;
    this.model.watched = false;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.model.watched = this.isVisible;
  }

  protected render(): React.JSX.Element {
    return <UseSignal signal={this.model.changed}>{() => this.draw()}</UseSignal>;
  }

  private draw(): React.JSX.Element {
    const { report, fault } = this.model;
    const { trans } = this.language;
    const now = this.model.now();
    const view = report && this.order.settle(viewOf(report, now, this.language, this.unfolded, this.arrangement));
    return (
      <>
        <header className="jp-GpuGuard-Head">
          <h2>{trans.__('GPU Guard')}</h2>
          {view?.simulated && <span className="jp-GpuGuard-Badge">{trans.__('simulated')}</span>}
          {this.more.history !== undefined && (
            <button
              type="button"
              className="jp-GpuGuard-Button jp-GpuGuard-Aside"
              title={trans.__('GPU memory and compute of the last hour')}
              onClick={() => this.more.history?.()}
            >
              {trans.__('History')}
            </button>
          )}
        </header>
        {view?.observing && <p className="jp-GpuGuard-Mode">{trans.__('observing: nothing is ended')}</p>}
        <div role="status" aria-live="polite" className="jp-GpuGuard-Unseen">
          {view?.alarms.map(alarm => (
            <p key={alarm}>{alarm}</p>
          ))}
        </div>
        {view === null ? (
          <Absence fault={fault} onRetry={() => void this.model.refresh()} trans={trans} />
        ) : (
          this.drawReport(view)
        )}
      </>
    );
  }

  private drawReport(view: IPanelView): React.JSX.Element {
    const { report, fault, receivedAt } = this.model;
    const { trans } = this.language;
    const age = (this.model.now() - (receivedAt ?? 0)) / 1000;
    return (
      <>
        {fault !== null && (
          <Card tone="warning" title={headline(fault, trans)}>
            <p>{trans.__('What is shown here is %1 old.', duration(age, trans))}</p>
            <AskedFor fault={fault} trans={trans} />
          </Card>
        )}
        <div
          className="jp-GpuGuard-Report"
          data-stale={fault !== null}
          onPointerOver={event => {
            this.point((event.target as Element).closest('.jp-GpuGuard-List') !== null);
          }}
          onPointerLeave={() => {
            this.point(false);
          }}
        >
          {report?.taken_at === null ? (
            <FirstReading intervalSeconds={report.interval_seconds} onAsk={this.askProblems} trans={trans} />
          ) : (
            <Body
              view={view}
              revealed={this.revealed}
              doors={this.doors}
              arrangement={this.arrangement}
              onArrange={this.arrange}
              trans={trans}
            />
          )}
        </div>
        <footer className="jp-GpuGuard-Foot">
          <button
            type="button"
            className="jp-GpuGuard-Link"
            title={report?.policy.source}
            onClick={this.doors.showPolicy}
          >
            {view.footer}
          </button>
        </footer>
      </>
    );
  }

  private point(pointed: boolean): void {
    if (pointed !== this.order.pointed) {
      this.order.pointed = pointed;
      this.update();
    }
  }

  private readonly arrange = (arrangement: IArrangement): void => {
    this.arrangement = arrangement;
    this.arrangements.write(arrangement);
    this.order.forget();
    this.update();
  };

  private readonly askProblems = async (): Promise<string[]> =>
    problemTexts(await this.model.health(), this.model.now(), this.language);
  private readonly arrangements: Arrangements;
  private arrangement: IArrangement;
  private readonly order = new Order();
  private readonly unfolded = new Set<string>();
  private readonly doors: IRowDoors;
  private revealed: { owner: string; turn: number } | null = null;
}

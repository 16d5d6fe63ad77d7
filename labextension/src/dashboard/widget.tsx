import { MainAreaWidget } from '@jupyterlab/apputils';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import React from 'react';
import { Absence, AskedFor, headline } from '../components/Absence';
import { Card } from '../components/Card';
import { bytes, duration, moment, percent } from '../format';
import { guardIcon } from '../icons';
import type { ILanguage } from '../language';
import type { GuardModel } from '../model';
import { holdsSomething, titleOf } from '../owners';
import { deviceLabel, inOrder } from '../places';
import type { WireDevice, WireReport } from '../wire';
import { Plot } from './plot';
import { pointsOf } from './points';

const HOUR_MS = 3_600_000;

/** The last hour of each device and of each holder, in the main area. */
export class GuardHistory extends ReactWidget {
  constructor(
    private readonly model: GuardModel,
    private readonly reveal: (owner: string) => void,
    private readonly language: ILanguage
  ) {
    super();
    this.addClass('jp-GpuGuard-History');
    this.node.dataset.testid = 'gpu-guard-history';
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.watch(true);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.watch(false);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.watch(this.isVisible);
  }

  protected override onBeforeDetach(message: Message): void {
    this.watch(false);
    super.onBeforeDetach(message);
  }

  protected render(): React.JSX.Element {
    return <UseSignal signal={this.model.changed}>{() => this.draw()}</UseSignal>;
  }

  private watch(looks: boolean): void {
    this.model.watch('history', looks);
  }

  private draw(): React.JSX.Element {
    const { report, fault } = this.model;
    const { trans } = this.language;
    if (report === null) {
      return <Absence fault={fault} onRetry={() => void this.model.refresh()} trans={trans} />;
    }
    const age = (this.model.now() - (this.model.receivedAt ?? 0)) / 1000;
    return (
      <>
        <header className="jp-GpuGuard-Head">
          <h2>{trans.__('GPU history')}</h2>
          {report.simulated && <span className="jp-GpuGuard-Badge">{trans.__('simulated')}</span>}
        </header>
        <p className="jp-GpuGuard-Quiet">
          {trans.__('The last hour, minute by minute. A gap: not seen, or not known.')}
        </p>
        {fault !== null && (
          <Card tone="warning" title={headline(fault, trans)}>
            <p>{trans.__('What is shown here is %1 old.', duration(age, trans))}</p>
            <AskedFor fault={fault} trans={trans} />
          </Card>
        )}
        <div className="jp-GpuGuard-Report" data-stale={fault !== null}>
          {this.drawDevices(report)}
          {this.drawHolders(report)}
        </div>
      </>
    );
  }

  private drawDevices(report: WireReport): React.JSX.Element {
    const { trans } = this.language;
    return (
      <section aria-label={trans.__('Devices')}>
        <h3>{trans.__('Devices')}</h3>
        {report.devices.length === 0 && <p className="jp-GpuGuard-Quiet">{trans.__('No GPU is seen.')}</p>}
        <ul className="jp-GpuGuard-Plots">
          {inOrder(report.devices).map(device => {
            const label = deviceLabel(device, report.devices);
            return (
              <li key={device.uuid} aria-label={`${label} ${device.name}`}>
                <h4 title={device.uuid}>
                  {label} <span className="jp-GpuGuard-Quiet">{device.name}</span>
                </h4>
                {this.plots(label, device, device.memory_used_bytes, report, device.memory_total_bytes)}
              </li>
            );
          })}
        </ul>
      </section>
    );
  }

  private drawHolders(report: WireReport): React.JSX.Element {
    const { trans } = this.language;
    const holders = report.holders
      .filter(holder => holdsSomething(holder, report))
      .sort((a, b) => (b.memory_bytes ?? Infinity) - (a.memory_bytes ?? Infinity) || 0);
    return (
      <section aria-label={trans.__('Notebooks that hold GPU memory')}>
        <h3>{trans.__('Notebooks that hold GPU memory')}</h3>
        {holders.length === 0 && <p className="jp-GpuGuard-Quiet">{trans.__('No notebook holds GPU memory.')}</p>}
        <ul className="jp-GpuGuard-Plots">
          {holders.map(holder => (
            <li key={holder.owner} aria-label={holder.notebook ?? holder.name}>
              <h4>
                <button
                  type="button"
                  className="jp-GpuGuard-Link"
                  title={holder.notebook ?? holder.name}
                  onClick={() => {
                    this.reveal(holder.owner);
                  }}
                >
                  {titleOf(holder)}
                </button>
              </h4>
              {this.plots(titleOf(holder), holder, holder.memory_bytes, report, null)}
            </li>
          ))}
        </ul>
      </section>
    );
  }

  private plots(
    name: string,
    { history, compute_percent: compute }: Pick<WireDevice, 'history' | 'compute_percent'>,
    memory: number | null,
    report: WireReport,
    total: number | null
  ): React.JSX.Element {
    const { trans } = this.language;
    const to = Date.parse(report.taken_at ?? '') || this.model.now();
    const from = to - HOUR_MS;
    const shared = { from, to, trans };
    return (
      <>
        <Plot
          {...shared}
          name={trans.__('%1, memory', name)}
          caption={trans.__('GPU memory')}
          values={pointsOf(history, 'memory_bytes', memory, to)}
          top={total}
          format={bytes}
        />
        <Plot
          {...shared}
          name={trans.__('%1, compute', name)}
          caption={trans.__('Compute')}
          values={pointsOf(history, 'compute_percent', compute, to)}
          top={100}
          format={percent}
        />
        <div className="jp-GpuGuard-PlotTimes" aria-hidden="true">
          <span>{moment(new Date(from).toISOString(), to, this.language)}</span>
          <span>{moment(new Date(to).toISOString(), to, this.language)}</span>
        </div>
      </>
    );
  }
}

/** The history as a tab of the main area. */
export function historyTab(content: GuardHistory, { trans }: ILanguage): MainAreaWidget<GuardHistory> {
  const tab = new MainAreaWidget({ content });
  tab.content.node.setAttribute('aria-label', trans.__('GPU history')); // a tab names its content like every other's
  tab.id = 'jupyter-gpu-guard-history';
  tab.title.label = trans.__('GPU history');
  tab.title.icon = guardIcon;
  tab.title.closable = true;
  tab.toolbar.hide();
  return tab;
}

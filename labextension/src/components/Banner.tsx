import { ReactWidget } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import React from 'react';
import { endText, freedText, groundsOf } from '../endings';
import type { ILanguage } from '../language';
import { reasonTexts } from '../reasons';
import { labelled } from '../words';
import type { WireOutcome, WireReason } from '../wire';

/** Stands at the top of a notebook whose kernel was shut down, until it is put away. */
export class Banner extends ReactWidget {
  constructor(
    readonly outcome: WireOutcome,
    private readonly simulated: boolean,
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

  /** Whether another kernel runs now, so that there is none to be chosen. */
  say(goesOn: boolean): void {
    if (goesOn !== this.goesOn) {
      this.goesOn = goesOn;
      this.update();
    }
  }

  /** Why, on which readings. Who asked for it is said in the headline. */
  private get grounds(): WireReason[] {
    return groundsOf(this.outcome).filter(reason => reason.code !== 'asked');
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
          <strong>{labelled(endText(this.outcome, this.now, this.language), this.simulated, trans)}</strong>
          <p>
            {reasonTexts(this.grounds, this.now, this.language).join(' ')} {freedText(this.outcome, this.language)}
          </p>
          <p>
            {this.goesOn
              ? trans.__('Its variables are gone; the notebook and its outputs were left as they were.')
              : trans.__(
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

  private goesOn = false;

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

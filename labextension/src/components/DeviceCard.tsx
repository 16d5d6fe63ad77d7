import type { TranslationBundle } from '@jupyterlab/translation';
import { type ReadonlyJSONValue, JSONExt } from '@lumino/coreutils';
import React from 'react';
import type { IDeviceCard } from '../devices';
import { Reading } from './Reading';
import { Sparkline } from './Sparkline';

interface IProps {
  readonly device: IDeviceCard;
  readonly trans: TranslationBundle;
}

/** One GPU: whose memory it is, and how it does. */
export const DeviceCard = React.memo(
  function DeviceCard({ device, trans }: IProps): React.JSX.Element {
    const name = `${device.label} ${device.name}`;
    return (
      <li
        className="jp-GpuGuard-Device"
        data-testid="gpu-guard-device"
        data-device={device.uuid}
        data-nested={device.nested}
        aria-label={name}
      >
        <div className="jp-GpuGuard-Split">
          <span className="jp-GpuGuard-Name" title={device.uuid}>
            {device.label} {device.mig && !device.nested && <span className="jp-GpuGuard-Badge">MIG</span>}{' '}
            {device.free && <span className="jp-GpuGuard-Badge">{trans.__('free')}</span>}
          </span>
          <Reading reading={device.memory} name={trans.__('GPU memory')} />
        </div>
        <div className="jp-GpuGuard-Split">
          <div className="jp-GpuGuard-Folder" title={device.name}>
            {device.name}
          </div>
          {device.spark !== null && <Sparkline spark={device.spark} />}
        </div>
        {device.trouble !== null && <p className="jp-GpuGuard-Trouble">{device.trouble}</p>}
        {device.parts.length > 0 && (
          <>
            <div className="jp-GpuGuard-Bar" aria-hidden="true">
              {device.parts
                .filter(part => part.kind !== 'unused')
                .map(part => (
                  <span
                    key={part.kind}
                    data-part={part.kind}
                    title={part.text}
                    style={{ width: `${(part.share * 100).toFixed(2)}%` }}
                  />
                ))}
            </div>
            <ul className="jp-GpuGuard-Legend">
              {device.parts.map(part => (
                <li key={part.kind} data-part={part.kind}>
                  {part.text}
                </li>
              ))}
            </ul>
          </>
        )}
        {device.figures.length > 0 && (
          <dl className="jp-GpuGuard-Facts">
            {device.figures.map(figure => (
              <div key={figure.name} title={figure.reading.title}>
                <dt>{figure.name}</dt>
                <dd>{figure.reading.text}</dd>
              </div>
            ))}
          </dl>
        )}
        {device.lines.map(line => (
          <p key={line} className="jp-GpuGuard-Quiet">
            {line}
          </p>
        ))}
      </li>
    );
  },
  (before, after) =>
    JSONExt.deepEqual(before.device as unknown as ReadonlyJSONValue, after.device as unknown as ReadonlyJSONValue)
);

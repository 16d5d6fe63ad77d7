import type { TranslationBundle } from '@jupyterlab/translation';
import { type ReadonlyJSONValue, JSONExt } from '@lumino/coreutils';
import React from 'react';
import type { IDeviceCard } from '../devices';

interface IProps {
  readonly device: IDeviceCard;
  readonly trans: TranslationBundle;
}

/** One GPU: whose memory it is, and how it does. */
export const DeviceCard = React.memo(
  function DeviceCard({ device, trans }: IProps): React.JSX.Element {
    const name = `${device.label} ${device.name}`;
    return (
      <li className="jp-GpuGuard-Device" data-testid="gpu-guard-device" data-device={device.uuid} aria-label={name}>
        <div className="jp-GpuGuard-RowHead">
          <div className="jp-GpuGuard-Name" title={device.uuid}>
            <span className="jp-GpuGuard-DeviceLabel">{device.label}</span>
            {device.mig && <span className="jp-GpuGuard-Badge">MIG</span>}
            <span className="jp-GpuGuard-Folder">{device.name}</span>
          </div>
          <span className="jp-GpuGuard-Reading" title={device.memory.title ?? trans.__('GPU memory')}>
            {device.memory.text}
          </span>
        </div>
        {device.trouble !== null && <p className="jp-GpuGuard-Trouble">{device.trouble}</p>}
        {device.parts.length > 0 && (
          <>
            <div className="jp-GpuGuard-Bar" aria-hidden="true">
              {device.parts
                .filter(part => part.kind !== 'free')
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
        <dl className="jp-GpuGuard-Figures">
          {device.figures.map(figure => (
            <div key={figure.name} title={figure.reading.title}>
              <dt>{figure.name}</dt>
              <dd>{figure.reading.text}</dd>
            </div>
          ))}
        </dl>
        {device.strangers !== null && <p className="jp-GpuGuard-Quiet">{device.strangers}</p>}
      </li>
    );
  },
  (before, after) =>
    JSONExt.deepEqual(before.device as unknown as ReadonlyJSONValue, after.device as unknown as ReadonlyJSONValue)
);

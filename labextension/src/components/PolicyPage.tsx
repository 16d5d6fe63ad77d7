import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { IPolicyText, IRuleText } from '../policies';

/** The policy in force, from the first rule that is asked to the last. */
export function PolicyPage(props: { policy: IPolicyText; trans: TranslationBundle }): React.JSX.Element {
  const { policy, trans } = props;
  return (
    <div className="jp-GpuGuard-Policy">
      {policy.lines.map(line => (
        <p key={line}>{line}</p>
      ))}
      {policy.exemptions.length > 0 && (
        <>
          <h4>{trans.__('Exemptions')}</h4>
          <ul>
            {policy.exemptions.map(line => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </>
      )}
      {policy.budgets.length > 0 && (
        <>
          <h4>{trans.__('Budgets')}</h4>
          <ul>
            {policy.budgets.map(line => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        </>
      )}
      <h4>{trans.__('Rules: the first that fits decides')}</h4>
      <ol>
        {policy.rules.map(rule => (
          <Rule key={rule.name} rule={rule} trans={trans} />
        ))}
      </ol>
    </div>
  );
}

function Rule({ rule, trans }: { rule: IRuleText; trans: TranslationBundle }): React.JSX.Element {
  return (
    <li>
      <strong>{rule.name}</strong>
      <div>{rule.match.length === 0 ? trans.__('fits everything that is left') : rule.match.join(', ')}</div>
      {rule.limit !== null && <div>{rule.limit}</div>}
      {rule.ladder.length > 0 && (
        <ul>
          {rule.ladder.map((step, index) => (
            <li key={index}>{step}</li>
          ))}
        </ul>
      )}
      {rule.settings.length > 0 && (
        <details>
          <summary>{trans.__('All values')}</summary>
          <dl>
            {rule.settings.map(({ key, words, value }) => (
              <div key={key}>
                <dt title={key}>{words ?? <code>{key}</code>}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </li>
  );
}

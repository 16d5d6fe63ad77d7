import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { duration } from '../format';
import { Card } from './Card';

interface IProps {
  readonly intervalSeconds: number;
  /** What the server says is wrong, if it takes longer than it should. */
  readonly onAsk: () => Promise<readonly string[]>;
  readonly trans: TranslationBundle;
}

/** Stands there until the first look is done. */
export function FirstReading({ intervalSeconds, onAsk, trans }: IProps): React.JSX.Element {
  const [problems, setProblems] = React.useState<readonly string[]>([]);
  React.useEffect(() => {
    let here = true;
    onAsk().then(
      found => {
        if (here) {
          setProblems(found);
        }
      },
      () => undefined // the report itself will say that nobody answers
    );
    return () => {
      here = false;
    };
  }, [onAsk]);
  return (
    <Card tone="plain">
      <p>{trans.__('No reading yet. The first one takes about %1.', duration(intervalSeconds, trans))}</p>
      {problems.map(problem => (
        <p key={problem}>{problem}</p>
      ))}
    </Card>
  );
}

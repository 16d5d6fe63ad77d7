import { english } from '../language';
import { HEIGHT, lineOf, MINUTES, sparkOf } from '../sparks';

const of = (...values: (number | null)[]): { compute_percent: (number | null)[]; memory_bytes: (number | null)[] } => ({
  compute_percent: values,
  memory_bytes: values.map(() => null)
});

describe('a line of the last hour', () => {
  it('ends at the right, and rises with compute', () => {
    expect(lineOf([0, 100])).toBe(`M58 ${HEIGHT - 1}h.5L59 1`);
    expect(lineOf(Array.from({ length: MINUTES }, () => 50))).toMatch(/^M0 8h\.5L1 8/);
  });

  it('stays within its frame', () => {
    expect(lineOf([140])).toBe('M59 1h.5');
  });

  it('has a gap where nothing is known: that is not 0', () => {
    expect(lineOf([10, null, 10])).toMatch(/^M57 \d+h\.5M59 \d+h\.5$/);
  });

  it('is told in words', () => {
    expect(sparkOf(of(0, null, 90), english.trans)?.text).toBe(
      'Compute in the last 3 min: 45 % in the mean, 90 % at most'
    );
  });

  it('is not there where nothing is known', () => {
    expect(sparkOf(null, english.trans)).toBeNull();
    expect(sparkOf(undefined, english.trans)).toBeNull();
    expect(sparkOf(of(null, null), english.trans)).toBeNull();
  });

  it('has an hour at most', () => {
    expect(sparkOf(of(...Array.from({ length: 70 }, () => 1)), english.trans)?.text).toContain('last 60 min');
  });
});

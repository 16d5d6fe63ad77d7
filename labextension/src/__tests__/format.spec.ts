import { bytes, duration, moment, percent, shorten } from '../format';
import { english } from '../language';
import { GIB, NOW, after } from './fixtures';

const MIB = 2 ** 20;

describe('bytes', () => {
  it.each([
    [0, '0 MiB'],
    [1, '< 1 MiB'],
    [512 * MIB, '512 MiB'],
    [1023.4 * MIB, '1023 MiB'],
    [1023.6 * MIB, '1.0 GiB'],
    [6 * GIB, '6.0 GiB'],
    [79.96 * GIB, '80.0 GiB']
  ])('writes %d as %s', (amount, text) => {
    expect(bytes(amount)).toBe(text);
  });
});

describe('percent', () => {
  it('does not call a little nothing', () => {
    expect(percent(0.2)).toBe('< 1 %');
    expect(percent(0)).toBe('0 %');
    expect(percent(86.6)).toBe('87 %');
  });
});

describe('duration', () => {
  it.each([
    [-3, '0 s'],
    [45.9, '45 s'],
    [119, '119 s'],
    [120, '2 min'],
    [14 * 60 + 59, '14 min'],
    [3600, '1 h'],
    [4800, '1 h 20 min'],
    [47 * 3600, '47 h'],
    [48 * 3600, '2 d'],
    [75 * 3600, '3 d 3 h']
  ])('writes %d seconds as %s', (seconds, text) => {
    expect(duration(seconds, english.trans)).toBe(text);
  });
});

describe('moment', () => {
  it('gives the time alone for today, and the date with it for another day', () => {
    expect(moment(after(0), NOW, english)).toMatch(/^\d\d:\d\d$/);
    expect(moment(after(-3 * 86400), NOW, english)).toMatch(/27.*, \d\d:\d\d$/);
  });
});

describe('shorten', () => {
  it('cuts in the middle and keeps the ending', () => {
    expect(shorten('a-very-long-name.ipynb', 13)).toBe('a-very….ipynb');
    expect(shorten('short', 13)).toBe('short');
  });

  it('never tears a character apart', () => {
    expect(shorten('😀😀😀😀😀', 3)).toBe('😀…😀');
  });
});

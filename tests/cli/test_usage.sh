# Command lines that are wrong exit with 2 and say what would be right; standard output stays empty.
source "$(dirname "$0")/support.sh"
rope=$CASES/qk_rope_f32/plain.pt2

expect_exit 0 --help
expect_output 'prewarm'
expect_exit 0 --version
expect_output '^phasor [0-9]*\.[0-9]*\.[0-9]*$'
for command in run check show prewarm cache doctor bench; do
    expect_exit 0 "$command" --help
    expect_output "usage: phasor $command"
    expect_output '--cache DIR'
done

wrong() { # words of the command line, then after -- a text of the message
    local words=() text
    while [ "$1" != ::: ]; do
        words+=("$1")
        shift
    done
    text=$2
    expect_exit 2 "${words[@]}"
    expect_silence
    expect_message "$text"
}
expect_exit 2
expect_silence
wrong dance "$rope" ::: 'unknown command dance'
wrong run ::: 'usage: phasor run PROGRAM'
wrong run "$rope" "$rope" ::: 'usage: phasor run PROGRAM'
wrong run "$rope" --colour ::: 'unknown option --colour'
wrong run "$rope" --stage real ::: '--stage is no option of phasor run'
wrong run "$rope" --inputs ::: '--inputs needs a value'
wrong run "$rope" --json=yes ::: '--json takes no value'
wrong run "$rope" --device gpu ::: 'expected cpu, cuda or cuda:N'
wrong run "$rope" --device cuda:-1 ::: 'expected cpu, cuda or cuda:N'
wrong run "$rope" --mode quick ::: 'exact|generic|auto'
wrong run "$rope" --rules some ::: 'all|executorch'
wrong run "$rope" --log loud ::: 'off|error|warning|info|debug'
wrong run "$rope" --repeat 0 ::: 'expected a number from 1'
wrong run "$rope" --seed x ::: 'expected a number from 0'
wrong run "$rope" --rtol -1 --expect x ::: 'expected a number such as'
wrong run "$rope" --rtol 1e-3 ::: 'need --expect'
wrong run "$rope" --watch --json ::: 'more than one document'
wrong run "$rope" --dim q.1 ::: 'expected NAME=VALUES'
wrong run "$rope" --dim =3 ::: 'expected NAME=VALUES'
wrong run "$rope" --dim q.1=3, ::: 'numbers and ranges'
wrong run "$rope" --dim q.1=9:1 ::: 'numbers and ranges'
wrong run "$rope" --dim q.1=1:9:0 ::: 'numbers and ranges'
wrong run "$rope" --dim q.1=-3 ::: 'numbers and ranges'
wrong prewarm "$rope" --dim q.1=0:99999999999 ::: 'more than'
wrong run "$rope" --inputs x --dim q.1=3 ::: 'the file gives the sizes already'
wrong show "$rope" --stage half ::: 'loaded|real|plan|cuda|ptx'
wrong show "$rope" --stage loaded --json ::: '--json goes with --stage plan'
wrong show "$rope" --stage real --dim q.1=3 ::: '--dim goes with'
wrong show "$rope" --stage cuda --arch sm_80,sm_90 ::: 'show takes one'
wrong cache ::: 'stats|list|show KEY'
wrong cache polish ::: 'expected stats, list, show, verify, gc, clear, export, import or path'
wrong cache show ::: 'needs a KEY'
wrong cache path --json ::: 'prints no figures'
wrong run "$rope" --cache '' ::: 'the name of the directory is empty'
wrong cache path --cache= ::: 'the name of the directory is empty'
wrong bench "$rope" --lengths q.1=uniform:9:1:5 ::: 'NAME=uniform:FROM:TO:COUNT'

# The manual's synopsis has every command, and every action of the cache.
manual=$(dirname "$0")/../../tools/phasor.1
sed -n '/^.SH SYNOPSIS/,/^.SH DESCRIPTION/p' "$manual" >"$scratch/out"
for command in run check show prewarm cache doctor bench; do
    expect_output "^.B phasor $command"
done
for action in stats list show verify gc clear export import path; do
    expect_output "\(^.B phasor cache\|^.RB {.*\) \(.* \)*$action\( \|$\)"
done
finish

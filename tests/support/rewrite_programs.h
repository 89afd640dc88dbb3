/* rewrite_programs.h - small programs on complex tensors that use every rule, and how near
 * before and after must be. */
#pragma once
#include "support/rewritten.h"

struct program {
    const char *body;
    struct tolerance tolerance;
};

#define HEAD "phasor 1 \"program\"\nsymbol n in 1..64 = 5\n"

/* z: c64[n, 6], w: c64[n, 6], x: f32[n, 6], i: i64[3], a: f64[] */
#define INPUTS                                                                                    \
    HEAD "input z: c64[n, 6]\ninput w: c64[n, 6]\ninput x: f32[n, 6]\ninput i: i64[3]\ninput a: " \
         "f64[]\n"

static const struct program programs[] = {
    {INPUTS "r = cast(z) : c128[n, 6]\noutput r\n", {0, 0}},
    {INPUTS "r = cast(z) : f32[n, 6]\noutput r\n", {0, 0}},
    {INPUTS "r = cast(z) : i64[n, 6]\noutput r\n", {0, 0}},
    {INPUTS "r = cast(z) : bool[n, 6]\noutput r\n", {0, 0}},
    {INPUTS "r = cast(x) : c64[n, 6]\noutput r\n", {0, 0}},
    {INPUTS "c = cast(x) : c64[n, 6]\nr = mul(c, z)\ns = mul(c, c)\noutput r\noutput s\n", {0, 0}},
    {INPUTS "d = cast(a) : c64[]\nr = mul(z, d)\ns = mul(d, d)\noutput r\noutput s\n", {0, 0}},
    {INPUTS "c = cast(x) : c64[n, 6]\nr = add(c, z)\ns = div(z, c)\nt = div(c, z)\noutput "
            "r\noutput s\noutput t\n",
     {0, 0}},
    {INPUTS "j = scalar value=1j : c64[]\nr = mul(z, j)\ns = add(j, z)\nt = sub(z, j)\noutput "
            "r\noutput s\noutput t\n",
     {0, 0}},
    {INPUTS "r = complex(x, x)\ns = polar(x, x)\noutput r\noutput s\n", {0, 0}},
    {INPUTS
     "b = select(x) axis=0 start=0\nr = complex(b, x)\ns = complex(x, b)\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "r = real(z)\ns = imag(z)\noutput r\noutput s\n", {0, 0}},
    {INPUTS "r = reshape(z) sizes=[6, n]\ns = permute(r) axes=[1, 0]\nt = reshape(s) "
            "sizes=[6*n]\noutput t\n",
     {0, 0}},
    {INPUTS
     "b = slice(z) axis=0 start=0 length=1 step=1\nr = expand(b) sizes=[4, n, 6]\noutput r\n",
     {0, 0}},
    {INPUTS "r = slice(z) axis=1 start=1 length=3 step=2\ns = select(r) axis=1 start=2\noutput s\n",
     {0, 0}},
    {INPUTS "r = diagonal(z) axes=[0, 1] start=1\ns = diagonal(z) axes=[1, 0] start=-1\noutput "
            "r\noutput s\n",
     {0, 0}},
    {INPUTS "r = unfold(z) axis=1 length=3 step=2\noutput r\n", {0, 0}},
    {INPUTS "r = flip(z) axes=[0, 1]\ns = roll(z) axes=[1, 0] sizes=[2, 1]\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "r = pad(z) sizes=[1, 0, 2, 3] value=0\ns = pad(z) sizes=[0, 1, -1, 1] "
            "value=2-1j\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "r = concat(z, w, z) axis=1\ns = concat(z, w) axis=0\noutput r\noutput s\n", {0, 0}},
    {INPUTS "r = clone(z) flag=0\ns = contiguous(w) flag=1\noutput r\noutput s\n", {0, 0}},
    {INPUTS "q = reshape(z) sizes=[1, 2, n, 3]\nr = clone(q) flag=2\ns = contiguous(q) "
            "flag=2\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "q = reshape(z) sizes=[1, 2, n, 3, 1]\nr = clone(q) flag=3\noutput r\n", {0, 0}},
    {INPUTS "b = slice(w) axis=1 start=0 length=2 step=1\nr = insert(z, b) axis=1 start=1 "
            "step=3\noutput r\n",
     {0, 0}},
    {INPUTS "b = diagonal(w) axes=[0, 1] start=0\nr = insert_diagonal(z, b) axes=[0, 1] "
            "start=0\noutput r\n",
     {0, 0}},
    {INPUTS "r = index(z, i) axis=1\ns = index(z, i, i) axis=0\noutput r\noutput s\n", {0, 0}},
    {INPUTS "b = slice(w) axis=1 start=0 length=3 step=1\nr = index_put(z, b, i) axis=1 "
            "flag=0\noutput r\n",
     {0, 0}},
    {INPUTS "b = select(w) axis=0 start=0\nc = select(b) axis=0 start=0\nr = index_put(z, c, i, i) "
            "axis=0 flag=1\noutput r\n",
     {1e-6, 1e-6}},
    {INPUTS "k = reshape(i) sizes=[1, 3]\nr = gather(z, k) axis=1\noutput r\n", {0, 0}},
    {INPUTS "k = reshape(i) sizes=[1, 3]\nr = scatter(z, k, w) axis=1 flag=1\noutput r\n",
     {1e-6, 1e-6}},
    {INPUTS "t = permute(w) axes=[1, 0]\nr = dot(z, t)\noutput r\n", {1e-5, 1e-5}},
    {INPUTS "c = cast(x) : c64[n, 6]\nt = permute(c) axes=[1, 0]\nr = dot(z, t)\ns = dot(c, "
            "t)\noutput r\noutput s\n",
     {1e-5, 1e-5}},
    {INPUTS "r = sum(z) axes=[0]\ns = sum(z) axes=[0, 1]\nt = cumsum(z) axis=1\noutput r\noutput "
            "s\noutput t\n",
     {1e-5, 1e-5}},
    {INPUTS "r = prod(z) axes=[0]\ns = prod(z) axes=[0, 1]\nq = reshape(z) sizes=[n, 3, 2]\nt = "
            "prod(q) axes=[1]\noutput r\noutput s\noutput t\n",
     {1e-5, 1e-5}},
    {INPUTS "r = cumprod(z) axis=0\ns = cumprod(z) axis=1\noutput r\noutput s\n", {1e-5, 1e-5}},
    {INPUTS "e = slice(z) axis=1 start=0 length=0 step=1\nr = prod(e) axes=[1]\ns = sum(e) "
            "axes=[1]\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "r = any(z) axes=[0]\ns = all(z) axes=[0, 1]\noutput r\noutput s\n", {0, 0}},
    {INPUTS "p = scalar value=3 : c64[]\nr = pow(z, p)\nq = scalar value=-2 : c64[]\ns = pow(z, "
            "q)\noutput r\noutput s\n",
     {0, 0}},
    {INPUTS "p = scalar value=0.5 : c64[]\nr = pow(z, p)\nq = scalar value=0 : c64[]\ns = pow(z, "
            "q)\noutput r\noutput s\n",
     {1e-5, 1e-5}},
};

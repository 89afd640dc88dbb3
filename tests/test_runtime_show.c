/* test_runtime_show.c - the stages as text and as files, the doctor, tensor files. */
#include "support/leak.h"
#include "support/runtime_case.h"

Test(show, all_stages)
{
    struct opened o;
    char *text;
    opened_case(&o, ON_CUDA, "qk_rope_f32", "plain");
    ASSERT_OK(phasor_program_show(o.program, "loaded", false, NULL, 0, &text));
    cr_assert(strstr(text, "view_as_complex"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "real", false, NULL, 0, &text));
    cr_assert(!strstr(text, "c64"), "%s", text);
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "plan", true, o.in, 2, &text));
    cr_assert(strstr(text, "{\"kernels\": [{\"name\": \"phasor_"), "%s", text);
    cr_assert(strstr(text, "\"operators\": ") && strstr(text, "\"bytes\": ") &&
              strstr(text, "\"workspace\": 0"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "plan", false, o.in, 2, &text));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "cuda", false, o.in, 2, &text));
    cr_assert(strstr(text, "aten.mul.Tensor") && strstr(text, "programs.py") &&
              strstr(text, "__global__"));
    phasor_free(text);
    ASSERT_OK(phasor_program_show(o.program, "ptx", false, o.in, 2, &text));
    phasor_free(text);
    ASSERT_FAILS(phasor_program_show(o.program, "soup", false, NULL, 0, &text), PHASOR_ERROR_USAGE,
                 "soup");
    ASSERT_FAILS(phasor_program_show(o.program, "cuda", false, NULL, 0, &text), PHASOR_ERROR_USAGE,
                 "shapes");
    ASSERT_FAILS(phasor_program_show(o.program, "cuda", true, o.in, 2, &text), PHASOR_ERROR_USAGE,
                 "JSON");
    opened_close(&o);
    ASSERT_NO_LEAKS();
}

Test(show, written_programs_run)
{
    char folder[64], path[128];
    struct opened o;
    const char *const stages[] = {"loaded", "real"};
    folder_make(folder);
    for (int i = 0; i < 2; i++) {
        opened_case(&o, ON_CPU, "stored_weights", "plain");
        snprintf(path, sizeof path, "%s/written.phasor", folder);
        ASSERT_OK(phasor_program_write(o.program, stages[i], path));
        ASSERT_FAILS(phasor_program_write(o.program, "cuda", path), PHASOR_ERROR_USAGE, "cuda");
        phasor_program_close(o.program);
        ASSERT_OK(phasor_program_load(o.runtime, path, NULL, &o.program));
        ASSERT_OK(opened_run(&o));
        opened_expect(&o);
        opened_delete(&o);
        opened_close(&o);
    }
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

Test(show, doctor)
{
    char *text;
    phasor_options options = options_for(ON_CUDA);
    ASSERT_OK(phasor_doctor(&options, true, &text));
    cr_assert(strstr(text, "\"devices\": [{\"ordinal\": 0"), "%s", text);
    phasor_free(text);
    setenv("PHASOR_NVRTC", "/there/is/none.so", 1);
    ASSERT_OK(phasor_doctor(&options, false, &text));
    cr_assert(strstr(text, "/there/is/none.so"), "%s", text);
    phasor_free(text);
    ASSERT_NO_LEAKS();
}

Test(show, tensor_files)
{
    struct opened o;
    char folder[64], path[128];
    phasor_tensors *tensors;
    phasor_value v;
    const char *names[2] = {"a", "b"};
    folder_make(folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    opened_case(&o, ON_CPU, "int_input", "plain");
    ASSERT_OK(phasor_tensors_write(path, names, o.in, 2));
    ASSERT_OK(phasor_tensors_read(path, &tensors));
    cr_assert_eq(phasor_tensors_count(tensors), 2);
    cr_assert(phasor_tensors_find(tensors, "b", &v));
    cr_assert_eq(v.integer, o.in[1].integer);
    cr_assert(phasor_tensors_name(tensors, 0) != NULL);
    cr_assert_not(phasor_tensors_find(tensors, "c", &v));
    phasor_tensors_close(tensors);
    ASSERT_FAILS(phasor_tensors_read("/there/is/none", &tensors), PHASOR_ERROR_FILE,
                 "/there/is/none");
    opened_close(&o);
    folder_remove(folder);
    ASSERT_NO_LEAKS();
}

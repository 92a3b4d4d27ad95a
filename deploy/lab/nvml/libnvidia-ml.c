/* A stand-in for the driver's libnvidia-ml.so.1: the ABI of NVML, and GPUs that a text file describes.
 *
 * REMEDIATOR_FAKE_NVML names the file; it is read again when it has changed. A later line wins:
 *   personality a100|h100|b200     gpus 8     driver 570.86.15     rc.init 9     hang nvmlDeviceGetTemperature
 *   gpu 3 lost 1                   every call about it says so
 *   gpu 3 gone 1                   it is neither counted nor found
 *   gpu * mig 1
 *   gpu 3 temperature 91           also: margin utilization tensor reasons limit.0-3 sram.0-1 uuid pci
 *   gpu 3 field.230 2              a numbered field; field.165.4 is that of link 4
 *   gpu 3 rc.temperature 999       what a call or a field returns instead: rc.field.230 3
 * Calls from two threads at once are reported in FILE.parallel: real drivers have crashed on them.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, IS_LOST = 15
};
enum { A100, H100, B200 };
enum { DOUBLE, UINT, ULONG, ULONGLONG, LONGLONG, INT };
enum { MOST_GPUS = 16, MOST_LINES = 512 };

typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int type, rc;
    union { double d; unsigned u; unsigned long long ull; long long ll; int i; } value;
} field_t;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned version; int margin; } margin_t;
typedef struct { unsigned version, supported; } gpm_support_t;
typedef struct { unsigned id; int rc; double value; const char *names[3]; } gpm_metric_t;
typedef struct { int gpu; unsigned long taken; } gpm_sample_t;
typedef struct {
    unsigned version, count;
    gpm_sample_t *older, *newer;
    gpm_metric_t metrics[];
} gpm_get_t;
typedef struct { int gpu; char name[40]; char value[64]; } line_t; /* gpu -1: all of them; -2: the machine */

static line_t lines[MOST_LINES];
static int line_count, begun;
static struct timespec read_at;
static off_t read_size;
static atomic_int inside;
static unsigned long samples;

/* --- the file */

static void load(void) {
    const char *path = getenv("REMEDIATOR_FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now)) {
        line_count = 0;
        memset(&read_at, 0, sizeof read_at);
        return;
    }
    if (!memcmp(&now.st_mtim, &read_at, sizeof read_at) && now.st_size == read_size) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    read_at = now.st_mtim;
    read_size = now.st_size;
    line_count = 0;
    char text[160], which[8];
    while (line_count < MOST_LINES && fgets(text, sizeof text, file)) {
        line_t *line = &lines[line_count];
        if (sscanf(text, " gpu %7s %39s %63s", which, line->name, line->value) == 3)
            line->gpu = *which == '*' ? -1 : atoi(which);
        else if (sscanf(text, " %39s %63s", line->name, line->value) == 2)
            line->gpu = -2;
        else
            continue;
        line_count++;
    }
    fclose(file);
}

static const char *find(int gpu, const char *name) {
    for (int i = line_count - 1; i >= 0; i--)
        if ((lines[i].gpu == gpu || (gpu >= 0 && lines[i].gpu == -1)) && !strcmp(lines[i].name, name))
            return lines[i].value;
    return NULL;
}

static long long number(int gpu, const char *name, long long otherwise) {
    const char *text = find(gpu, name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

static int machine(const char *name, int otherwise) { return (int)number(-2, name, otherwise); }

static int generation(void) {
    const char *name = find(-2, "personality");
    if (!name) return H100;
    return !strcmp(name, "a100") ? A100 : !strcmp(name, "b200") ? B200 : H100;
}

/* --- each call */

static int hangs(const char *call) {
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].name, "hang") && (!strcmp(lines[i].value, call) || *lines[i].value == '*')) return 1;
    return 0;
}

static void enter(const char *call) {
    if (atomic_fetch_add(&inside, 1)) {
        char path[4096];
        snprintf(path, sizeof path, "%s.parallel", getenv("REMEDIATOR_FAKE_NVML"));
        FILE *file = fopen(path, "a");
        if (file) {
            fprintf(file, "%s\n", call);
            fclose(file);
        }
    }
    load();
    while (hangs(call)) {
        usleep(5000);
        load();
    }
}

static int leave(int rc) {
    atomic_fetch_sub(&inside, 1);
    return rc;
}

static int index_of(void *handle) { return (int)(size_t)handle - 1; }

/* The state of a GPU before any question about it. */
static int reach(void *handle, const char *what) {
    int gpu = index_of(handle);
    if (!begun) return UNINITIALIZED;
    if (gpu < 0 || gpu >= machine("gpus", 8)) return INVALID_ARGUMENT;
    if (number(gpu, "lost", 0) || number(gpu, "gone", 0)) return IS_LOST;
    char name[48];
    snprintf(name, sizeof name, "rc.%s", what);
    return (int)number(gpu, name, OK);
}

static int mig(void *handle) { return number(index_of(handle), "mig", 0) != 0; }

/* A call that answers with one number. */
static int answer(const char *call, void *handle, const char *what, long long otherwise, long long *value) {
    enter(call);
    int rc = reach(handle, what);
    if (rc == OK) *value = number(index_of(handle), what, otherwise);
    return leave(rc);
}

static int put_text(char *into, unsigned size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(into, text);
    return OK;
}

/* --- the library */

int nvmlInit_v2(void) {
    enter("nvmlInit_v2");
    int rc = getenv("REMEDIATOR_FAKE_NVML") ? machine("rc.init", OK) : DRIVER_NOT_LOADED;
    begun = begun || rc == OK;
    return leave(rc);
}

int nvmlInitWithFlags(unsigned flags) { return (void)flags, nvmlInit_v2(); }

int nvmlShutdown(void) {
    enter("nvmlShutdown");
    int rc = begun ? OK : UNINITIALIZED;
    begun = 0;
    return leave(rc);
}

const char *nvmlErrorString(int rc) { return rc ? "an error" : "success"; }

int nvmlSystemGetDriverVersion(char *into, unsigned size) {
    enter("nvmlSystemGetDriverVersion");
    const char *text = find(-2, "driver");
    return leave(begun ? put_text(into, size, text ? text : "570.86.15") : UNINITIALIZED);
}

/* --- who is there */

static int nth(int place) {
    int all = machine("gpus", 8);
    for (int gpu = 0; gpu < all; gpu++)
        if (!number(gpu, "gone", 0) && place-- == 0) return gpu;
    return -1;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    enter("nvmlDeviceGetCount_v2");
    if (!begun) return leave(UNINITIALIZED);
    for (*count = 0; nth((int)*count) >= 0;) ++*count;
    return leave(OK);
}

static int hand(int gpu, void **handle) {
    if (gpu < 0) return NOT_FOUND;
    if (number(gpu, "lost", 0)) return IS_LOST;
    *handle = (void *)(size_t)(gpu + 1);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned place, void **handle) {
    enter("nvmlDeviceGetHandleByIndex_v2");
    if (!begun) return leave(UNINITIALIZED);
    int gpu = nth((int)place);
    int rc = gpu < 0 ? INVALID_ARGUMENT : (int)number(gpu, "rc.handle", OK);
    return leave(rc ? rc : hand(gpu, handle));
}

static void uuid_of(int gpu, char *into, size_t size) {
    const char *own = find(gpu, "uuid");
    snprintf(into, size, own ? own : "GPU-%08x-0000-0000-0000-%012x", gpu, gpu);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    enter("nvmlDeviceGetHandleByUUID");
    if (!begun) return leave(UNINITIALIZED);
    for (int place = 0, gpu; (gpu = nth(place)) >= 0; place++) {
        char own[96];
        uuid_of(gpu, own, sizeof own);
        if (!strcmp(own, uuid)) {
            int rc = (int)number(gpu, "rc.handle", OK);
            return leave(rc ? rc : hand(gpu, handle));
        }
    }
    return leave(NOT_FOUND);
}

int nvmlDeviceGetUUID(void *handle, char *into, unsigned size) {
    enter("nvmlDeviceGetUUID");
    int rc = reach(handle, "uuid");
    char own[96];
    uuid_of(index_of(handle), own, sizeof own);
    return leave(rc ? rc : put_text(into, size, own));
}

int nvmlDeviceGetName(void *handle, char *into, unsigned size) {
    static const char *names[] = {"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA B200"};
    enter("nvmlDeviceGetName");
    int rc = reach(handle, "name");
    return leave(rc ? rc : put_text(into, size, names[generation()]));
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *into) {
    static const char *places[] = {"18", "2a", "3a", "5d", "9a", "ab", "ba", "db"};
    enter("nvmlDeviceGetPciInfo_v3");
    int rc = reach(handle, "pci");
    if (rc) return leave(rc);
    memset(into, 0, sizeof *into);
    const char *own = find(index_of(handle), "pci");
    if (own)
        snprintf(into->bus_id, sizeof into->bus_id, "%s", own);
    else
        snprintf(into->bus_id, sizeof into->bus_id, "00000000:%s:00.0", places[index_of(handle) % 8]);
    return leave(OK);
}

/* --- functions */

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *into) {
    (void)sensor;
    long long value;
    int rc = answer("nvmlDeviceGetTemperature", handle, "temperature", 42, &value);
    if (rc == OK) *into = (unsigned)value;
    return rc;
}

int nvmlDeviceGetTemperatureThreshold(void *handle, int which, unsigned *into) {
    static const long long limits[] = {92, 89, 95, 87};
    if (which < 0 || which > 3) return INVALID_ARGUMENT;
    char what[16];
    snprintf(what, sizeof what, "limit.%d", which);
    long long value;
    int rc = answer("nvmlDeviceGetTemperatureThreshold", handle, what, limits[which], &value);
    if (rc == OK) *into = (unsigned)value;
    return rc == OK && generation() == B200 && which < 2 ? NOT_SUPPORTED : rc;
}

int nvmlDeviceGetMarginTemperature(void *handle, margin_t *into) {
    long long value;
    int rc = answer("nvmlDeviceGetMarginTemperature", handle, "margin", 45, &value);
    if (rc == OK && generation() == A100) return NOT_SUPPORTED;
    if (rc == OK) into->margin = (int)value;
    return rc;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *into) {
    long long value;
    int rc = answer("nvmlDeviceGetCurrentClocksThrottleReasons", handle, "reasons", 0, &value);
    if (rc == OK) *into = (unsigned long long)value;
    return rc;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *into) {
    return generation() == A100 ? NOT_SUPPORTED : nvmlDeviceGetCurrentClocksThrottleReasons(handle, into);
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *into) {
    long long value;
    int rc = answer("nvmlDeviceGetUtilizationRates", handle, "utilization", 100, &value);
    if (rc == OK && mig(handle)) return NOT_SUPPORTED;
    if (rc == OK) into->gpu = into->memory = (unsigned)value;
    return rc;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    long long value;
    int rc = answer("nvmlDeviceGetMigMode", handle, "mig", 0, &value);
    if (rc == OK) *current = *pending = (unsigned)value;
    return rc;
}

int nvmlDeviceGetMemoryErrorCounter(void *handle, int kind, int lifetime, int place, unsigned long long *into) {
    (void)kind, (void)place;
    long long value;
    int rc = answer("nvmlDeviceGetMemoryErrorCounter", handle, lifetime ? "sram.1" : "sram.0", 0, &value);
    if (rc == OK) *into = (unsigned long long)value;
    return rc;
}

/* --- numbered fields */

static int links(void) { return generation() == A100 ? 12 : 18; }

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *up) {
    enter("nvmlDeviceGetNvLinkState");
    char what[32];
    snprintf(what, sizeof what, "field.165.%u", link);
    int rc = reach(handle, what);
    if (rc == OK && link >= (unsigned)links()) rc = INVALID_ARGUMENT;
    if (rc == OK) *up = number(index_of(handle), what, 1) != 0;
    return leave(rc);
}

static int between(unsigned id, unsigned low, unsigned high) { return low <= id && id <= high; }

static int is_old_link_field(unsigned id) {
    return between(id, 32, 37) || between(id, 39, 44) || between(id, 46, 51) || between(id, 53, 58) ||
           between(id, 96, 119) || between(id, 148, 159);
}

/* What a healthy GPU of this generation says, or that it does not know the field. */
static int usual(field_t *field) {
    int gen = generation();
    unsigned id = field->id;
    field->type = ULONGLONG;
    field->value.ull = 0;
    if (id == 91) return field->type = UINT, field->value.u = (unsigned)links(), OK;
    if (id == 82) return field->type = UINT, field->value.u = 48, OK;
    if (between(id, 193, 196)) {
        if (gen == A100) return NOT_SUPPORTED;
        int slow = gen == B200 ? -3 : -2;
        return field->type = INT, field->value.i = id == 193 ? -8 : id == 194 ? slow : 0, OK;
    }
    if (id == 230) return field->type = UINT, gen == A100 ? NOT_SUPPORTED : OK;
    if (is_old_link_field(id)) return gen == B200 ? NOT_SUPPORTED : OK;
    if (between(id, 161, 165)) {
        if (field->scope >= (unsigned)links()) return INVALID_ARGUMENT;
        if (id == 165) field->value.ull = 1;
        return gen == A100 || (gen == B200 && id != 165) ? NOT_SUPPORTED : OK;
    }
    if (between(id, 201, 222)) return gen == B200 ? OK : NOT_SUPPORTED;
    if (between(id, 3, 6) || id == 74 || id == 75 || id == 77 || id == 79 || id == 94 || between(id, 142, 145))
        return OK;
    return INVALID_ARGUMENT;
}

static void fill(void *handle, field_t *field) {
    int gpu = index_of(handle);
    char own[32], any[32], name[48];
    snprintf(own, sizeof own, "field.%u.%u", field->id, field->scope);
    snprintf(any, sizeof any, "field.%u", field->id);
    field->rc = usual(field);
    if (mig(handle) && between(field->id, 142, 145)) field->rc = NOT_SUPPORTED;
    const char *text = find(gpu, own) ? find(gpu, own) : find(gpu, any);
    if (text) {
        field->rc = OK;
        field->type = *text == '-' ? LONGLONG : ULONGLONG;
        field->value.ull = *text == '-' ? (unsigned long long)strtoll(text, NULL, 10) : strtoull(text, NULL, 10);
    }
    snprintf(name, sizeof name, "rc.%s", any);
    field->rc = (int)number(gpu, name, field->rc);
}

int nvmlDeviceGetFieldValues(void *handle, int count, field_t *fields) {
    enter("nvmlDeviceGetFieldValues");
    int rc = reach(handle, "fields");
    for (int i = 0; rc == OK && i < count; i++) fill(handle, &fields[i]);
    return leave(rc);
}

/* --- GPM */

int nvmlGpmQueryDeviceSupport(void *handle, gpm_support_t *into) {
    enter("nvmlGpmQueryDeviceSupport");
    int rc = reach(handle, "gpm");
    if (rc == OK) into->supported = generation() != A100;
    return leave(rc);
}

int nvmlGpmSampleAlloc(gpm_sample_t **sample) {
    enter("nvmlGpmSampleAlloc");
    *sample = calloc(1, sizeof **sample);
    return leave(OK);
}

int nvmlGpmSampleFree(gpm_sample_t *sample) {
    enter("nvmlGpmSampleFree");
    free(sample);
    return leave(OK);
}

int nvmlGpmSampleGet(void *handle, gpm_sample_t *sample) {
    enter("nvmlGpmSampleGet");
    int rc = reach(handle, "sample");
    if (rc == OK && mig(handle)) rc = NOT_SUPPORTED;
    if (rc == OK) *sample = (gpm_sample_t){index_of(handle), ++samples};
    return leave(rc);
}

int nvmlGpmMetricsGet(gpm_get_t *get) {
    enter("nvmlGpmMetricsGet");
    int gpu = get->older->gpu;
    if (get->version != 1 || !get->older->taken || get->older->taken >= get->newer->taken || gpu != get->newer->gpu)
        return leave(INVALID_ARGUMENT);
    for (unsigned i = 0; i < get->count; i++) {
        const char *text = find(gpu, "tensor");
        get->metrics[i].rc = get->metrics[i].id == 5 ? (int)number(gpu, "rc.tensor", OK) : NOT_SUPPORTED;
        get->metrics[i].value = text ? strtod(text, NULL) : 62.5;
    }
    return leave(OK);
}
